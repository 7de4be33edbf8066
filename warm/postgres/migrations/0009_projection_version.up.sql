-- A projection is made behind the commit, so it says which version it is of.
-- Rows from before say nothing: of a document that was demoted they are of its
-- version, of any other they count as old.
ALTER TABLE projection ADD COLUMN version bigint;

-- Where documents have an index they are projected in the commit. A commit that
-- does not know of one fails, and comes again.
ALTER TABLE namespace ADD COLUMN indexed boolean NOT NULL DEFAULT false;
UPDATE namespace SET indexed = true WHERE nid IN (SELECT nid FROM query_index);
CREATE FUNCTION unprojected(space integer) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'documents of namespace % are indexed', space USING ERRCODE = 'TI003';
END $$;
