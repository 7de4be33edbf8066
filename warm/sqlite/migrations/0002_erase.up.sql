-- Orders to erase, in the order that they were begun. What is searched for,
-- but for the tenant, is emptied when one is done; the counts stay.
CREATE TABLE erasure (
  seq       INTEGER PRIMARY KEY,
  receipt   TEXT    NOT NULL UNIQUE,
  tenant    TEXT    NOT NULL,
  namespace TEXT    NOT NULL,
  id        BLOB    NOT NULL,
  prefix    BLOB    NOT NULL,
  user      TEXT    NOT NULL,
  started   INTEGER NOT NULL,
  pos       INTEGER NOT NULL,
  keys      INTEGER NOT NULL,
  versions  INTEGER NOT NULL,
  bytes     INTEGER NOT NULL,
  done      INTEGER NOT NULL,
  fence     INTEGER NOT NULL -- segments of the tenant that were started below it never finish
);
CREATE INDEX erasure_tenant ON erasure (tenant, fence);

CREATE TABLE erasure_segment (
  erasure INTEGER NOT NULL,
  segment TEXT    NOT NULL,
  PRIMARY KEY (erasure, segment)
) WITHOUT ROWID;

-- The count of steps of erasures, meta's erase_fence, when it was started.
ALTER TABLE segment ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
