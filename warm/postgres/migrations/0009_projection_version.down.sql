-- Before, every projection was of the version that stands. What is bare is read.
DELETE FROM projection p USING head h WHERE h.kid = p.kid AND h.flags & 2 = 2 AND p.version IS DISTINCT FROM h.version
  AND NOT EXISTS (SELECT FROM query_index q WHERE q.nid = h.nid);
DROP FUNCTION unprojected(integer);
ALTER TABLE namespace DROP COLUMN indexed;
ALTER TABLE projection DROP COLUMN version;
