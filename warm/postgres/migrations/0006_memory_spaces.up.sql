-- Writers lock memory before its vectors, and a migration is one transaction.
LOCK TABLE memory IN ACCESS EXCLUSIVE MODE;
-- Vectors of a space: counted, and dropped page by page.
CREATE INDEX memory_fresh_sid   ON memory_fresh   (sid);
CREATE INDEX memory_vector_sid  ON memory_vector  (sid);
CREATE INDEX memory_dormant_sid ON memory_dormant (sid);
