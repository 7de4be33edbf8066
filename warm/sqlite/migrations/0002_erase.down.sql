ALTER TABLE segment DROP COLUMN fence;
DROP TABLE erasure_segment;
DROP TABLE erasure;
