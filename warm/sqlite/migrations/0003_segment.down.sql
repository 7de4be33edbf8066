ALTER TABLE segment DROP COLUMN deleting;
ALTER TABLE segment DROP COLUMN owner;
