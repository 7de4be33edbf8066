-- An index of one namespace's projections is partial by nid. Rows from before
-- have none, and are part of every index until they are written again.
ALTER TABLE projection ADD COLUMN nid integer;

-- Namespaces of which an index is built. ready: queries use it. token tells one
-- building from the next.
CREATE TABLE query_index (
  nid   integer PRIMARY KEY,
  token bigint  GENERATED ALWAYS AS IDENTITY,
  ready boolean NOT NULL
);
