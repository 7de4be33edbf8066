DROP TABLE query_index;
-- Its indexes go with it.
ALTER TABLE projection DROP COLUMN nid;
