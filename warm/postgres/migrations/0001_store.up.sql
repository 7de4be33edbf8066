-- Times are microseconds of the Unix epoch in UTC, 0 for none. Ids are bytea
-- and names collate as bytes, so that every order is that of tiering.Key and a
-- prefix is a range of bytes.

CREATE TABLE meta (
  name   text COLLATE "C" PRIMARY KEY,
  number bigint NOT NULL DEFAULT 0,
  word   text   NOT NULL DEFAULT ''
);

CREATE TABLE namespace (
  nid     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  floor   bigint  NOT NULL,
  known   boolean NOT NULL, -- false: a row of the driver's own, EnsureNamespace was never called
  deleted boolean NOT NULL,
  written boolean NOT NULL, -- a key was written: kind and class are fixed
  tenant  text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  kind    text    NOT NULL,
  class   text    NOT NULL,
  UNIQUE (tenant, name)
);

-- No index covers what a write changes, so that an update stays on its page
-- (HOT). due is lazy: it becomes earlier with a write, and later with the sweep
-- alone. flags: 1 pinned, 2 the current bytes are in version, 4 stays
-- queryable; higher bits mean nothing between statements. carry is scratch of
-- the statement that commits puts. A row of version 0 is a placeholder that an
-- open transaction locks an absent key by; none is ever committed.
CREATE TABLE head (
  kid      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  version  bigint   NOT NULL,
  revision bigint   NOT NULL,
  created  bigint   NOT NULL,
  updated  bigint   NOT NULL,
  expires  bigint   NOT NULL,
  ttl      bigint   NOT NULL, -- microseconds
  accessed bigint   NOT NULL,
  size     bigint   NOT NULL,
  carry    bigint,
  due      bigint,
  nid      integer  NOT NULL,
  op       smallint NOT NULL,
  flags    smallint NOT NULL,
  id       bytea    NOT NULL,
  digest   bytea    NOT NULL,
  owner    text COLLATE "C" NOT NULL,
  UNIQUE (nid, id)
) WITH (fillfactor = 70);
CREATE INDEX head_owner ON head (nid, owner, id) WHERE owner <> '';
CREATE INDEX head_due   ON head (due)            WHERE due IS NOT NULL;

-- A row is written once. Bodies are compressed by the client, so the server
-- does not try again (EXTERNAL).
CREATE TABLE version (
  kid     bigint   NOT NULL,
  version bigint   NOT NULL,
  at      bigint   NOT NULL,
  created bigint   NOT NULL,
  expires bigint   NOT NULL,
  size    bigint   NOT NULL,
  op      smallint NOT NULL,
  coding  smallint NOT NULL, -- 0: body as it is, 1: zstd
  owner   text COLLATE "C" NOT NULL,
  digest  bytea    NOT NULL,
  body    bytea STORAGE EXTERNAL,
  PRIMARY KEY (kid, version)
);

-- What queries look at, of documents that stay queryable. doc is NULL when
-- PostgreSQL refused the document; the bytes then move into body when they
-- leave version.
CREATE TABLE projection (
  kid    bigint   PRIMARY KEY,
  coding smallint NOT NULL DEFAULT 0,
  doc    jsonb,
  body   bytea STORAGE EXTERNAL
) WITH (fillfactor = 70);

-- Tombstones by age. A row may outlive its tombstone: the purge looks.
CREATE TABLE tombstone (
  nid integer NOT NULL,
  at  bigint  NOT NULL,
  kid bigint  NOT NULL,
  PRIMARY KEY (nid, at, kid)
);

-- One row is one committed transaction that changed something, or a batch that
-- was resolved before it committed and never will (results and changes NULL).
CREATE TABLE batch (
  seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      bigint NOT NULL,
  id      uuid   NOT NULL CONSTRAINT batch_id UNIQUE,
  results bytea STORAGE EXTERNAL,
  changes bytea STORAGE EXTERNAL
);
CREATE INDEX batch_unchanged ON batch (seq) WHERE changes IS NULL;

-- Batches that have no place in the feed yet.
CREATE TABLE outbox (seq bigint PRIMARY KEY);

CREATE TABLE feed (
  pos bigint PRIMARY KEY,
  seq bigint NOT NULL
);

-- One row: the lease of whoever gives out positions.
CREATE TABLE sequencer (
  one     boolean PRIMARY KEY CHECK (one),
  last    bigint NOT NULL,
  trimmed bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO sequencer (one, last, trimmed) VALUES (true, 0, 0);

CREATE TABLE request (
  seq    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at     bigint NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  key    bytea  NOT NULL,
  hash   bytea  NOT NULL,
  result bytea  NOT NULL,
  CONSTRAINT request_key UNIQUE (tenant, key)
);

CREATE TABLE position (
  reader text COLLATE "C" PRIMARY KEY,
  pos    bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE lease (
  name    text COLLATE "C" PRIMARY KEY,
  holder  text   NOT NULL,
  token   bigint NOT NULL,
  expires bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE segment (
  name     text COLLATE "C" PRIMARY KEY,
  tenant   text COLLATE "C" NOT NULL,
  state    text   NOT NULL,
  owner    text   NOT NULL,
  token    bigint NOT NULL,
  size     bigint NOT NULL,
  raw_size bigint NOT NULL,
  sha256   bytea  NOT NULL,
  count    bigint NOT NULL,
  min_time bigint NOT NULL, -- nanoseconds, 0 for none
  max_time bigint NOT NULL, -- nanoseconds
  ranges   text   NOT NULL, -- JSON
  copy0    text   NOT NULL,
  copy1    text   NOT NULL,
  started  bigint NOT NULL,
  deleting bigint NOT NULL DEFAULT 0,
  fence    bigint NOT NULL DEFAULT 0 -- the count of steps of erasures when it was started
);

CREATE TABLE location (
  tenant      text COLLATE "C" NOT NULL,
  namespace   text COLLATE "C" NOT NULL,
  id          bytea  NOT NULL,
  segment     text COLLATE "C" NOT NULL,
  min_version bigint NOT NULL,
  max_version bigint NOT NULL,
  min_time    bigint NOT NULL, -- nanoseconds
  max_time    bigint NOT NULL, -- nanoseconds
  blocks      text   NOT NULL, -- JSON
  PRIMARY KEY (tenant, namespace, id, segment)
);
CREATE INDEX location_segment ON location (segment, tenant, namespace, id);

-- Orders to erase, in the order that they were begun. What is searched for,
-- but for the tenant, is emptied when one is done; the counts stay. phase and
-- the two marks say how far the search for mentions has come.
CREATE TABLE erasure (
  seq       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  receipt   text COLLATE "C" NOT NULL UNIQUE,
  tenant    text COLLATE "C" NOT NULL,
  namespace text   NOT NULL,
  id        bytea  NOT NULL,
  prefix    bytea  NOT NULL,
  owner     text   NOT NULL,
  started   bigint NOT NULL,
  pos       bigint NOT NULL DEFAULT 0,
  keys      bigint NOT NULL DEFAULT 0,
  versions  bigint NOT NULL DEFAULT 0,
  bytes     bigint NOT NULL DEFAULT 0,
  done      bigint NOT NULL DEFAULT 0,
  fence     bigint NOT NULL DEFAULT 0, -- segments of the tenant that were started below it never finish
  phase     smallint NOT NULL DEFAULT 0,
  batches   bigint NOT NULL DEFAULT 0,
  requests  bigint NOT NULL DEFAULT 0
);
CREATE INDEX erasure_tenant ON erasure (tenant, fence);

CREATE TABLE erasure_segment (
  erasure bigint NOT NULL,
  segment text COLLATE "C" NOT NULL,
  PRIMARY KEY (erasure, segment)
);

-- Keys of which a user's order takes something. watched: the key was known when
-- the look for mentions began; shared: it was seen mentioned as somebody else's.
CREATE TABLE erasure_key (
  erasure   bigint  NOT NULL,
  watched   boolean NOT NULL,
  shared    boolean NOT NULL DEFAULT false,
  namespace text COLLATE "C" NOT NULL,
  id        bytea   NOT NULL,
  PRIMARY KEY (erasure, namespace, id)
);

-- lz4 where the server was built with it.
DO $$ BEGIN
  ALTER TABLE projection ALTER COLUMN doc SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN NULL;
END $$;
