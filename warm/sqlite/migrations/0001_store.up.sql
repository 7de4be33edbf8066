-- Times are microseconds of the Unix epoch in UTC, 0 for none. Ids are BLOBs,
-- so that they compare bytewise and a prefix is a range of bytes.

CREATE TABLE namespace (
  nid     INTEGER PRIMARY KEY,
  tenant  TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  kind    TEXT    NOT NULL,
  class   TEXT    NOT NULL,
  floor   INTEGER NOT NULL,
  known   INTEGER NOT NULL, -- 0: a row of the driver's own, EnsureNamespace was never called
  deleted INTEGER NOT NULL,
  written INTEGER NOT NULL, -- 1: a key was written, kind and class are fixed
  UNIQUE (tenant, name)
);

-- flags: 1 pinned, 2 the current bytes are in version, 4 stays queryable.
CREATE TABLE head (
  kid      INTEGER PRIMARY KEY,
  ns       INTEGER NOT NULL,
  id       BLOB    NOT NULL,
  op       INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  updated  INTEGER NOT NULL,
  expires  INTEGER NOT NULL,
  ttl      INTEGER NOT NULL, -- microseconds
  accessed INTEGER NOT NULL,
  size     INTEGER NOT NULL,
  flags    INTEGER NOT NULL,
  digest   BLOB    NOT NULL,
  user     TEXT    NOT NULL,
  UNIQUE (ns, id)
);
CREATE INDEX head_user      ON head (ns, user, id)  WHERE user <> '';
CREATE INDEX head_expires   ON head (expires)       WHERE expires > 0 AND flags & 1 = 0;
CREATE INDEX head_tombstone ON head (ns, updated)   WHERE op > 1;

-- A row is written once. body is last, so that overflow pages hold nothing else.
CREATE TABLE version (
  vid     INTEGER PRIMARY KEY,
  kid     INTEGER NOT NULL,
  version INTEGER NOT NULL,
  op      INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  size    INTEGER NOT NULL,
  user    TEXT    NOT NULL,
  digest  BLOB    NOT NULL,
  coding  INTEGER NOT NULL, -- 0: body as it is, 1: zstd
  body    BLOB
);
-- size makes the index cover Stats.
CREATE INDEX version_key ON version (kid, version, size);

-- The bytes of demoted documents that stay queryable.
CREATE TABLE projection (
  kid    INTEGER PRIMARY KEY,
  coding INTEGER NOT NULL,
  body   BLOB    NOT NULL
);

-- One row is one committed transaction that changed something.
CREATE TABLE feed (
  pos     INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  batch   BLOB    NOT NULL,
  results BLOB    NOT NULL,
  changes BLOB    NOT NULL
);
CREATE UNIQUE INDEX feed_batch ON feed (batch);

-- Batches without a feed entry: committed ones that changed nothing, and those
-- that were resolved before they committed and never will (results NULL).
CREATE TABLE settled (
  seq     INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  batch   BLOB    NOT NULL UNIQUE,
  results BLOB
);

CREATE TABLE idempotency (
  seq    INTEGER PRIMARY KEY,
  at     INTEGER NOT NULL,
  tenant TEXT    NOT NULL,
  key    BLOB    NOT NULL,
  hash   BLOB    NOT NULL,
  result BLOB    NOT NULL,
  UNIQUE (tenant, key)
);

CREATE TABLE position (
  reader TEXT    PRIMARY KEY,
  pos    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE segment (
  name      TEXT    PRIMARY KEY,
  tenant    TEXT    NOT NULL,
  state     TEXT    NOT NULL,
  token     INTEGER NOT NULL,
  size      INTEGER NOT NULL,
  raw_size  INTEGER NOT NULL,
  sha256    BLOB    NOT NULL,
  count     INTEGER NOT NULL,
  min_time  INTEGER NOT NULL, -- nanoseconds, 0 for none
  max_time  INTEGER NOT NULL, -- nanoseconds
  ranges    TEXT    NOT NULL, -- JSON
  copy0     TEXT    NOT NULL,
  copy1     TEXT    NOT NULL,
  started   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE location (
  tenant      TEXT    NOT NULL,
  namespace   TEXT    NOT NULL,
  id          BLOB    NOT NULL,
  segment     TEXT    NOT NULL,
  min_version INTEGER NOT NULL,
  max_version INTEGER NOT NULL,
  min_time    INTEGER NOT NULL, -- nanoseconds
  max_time    INTEGER NOT NULL, -- nanoseconds
  blocks      TEXT    NOT NULL, -- JSON
  PRIMARY KEY (tenant, namespace, id, segment)
) WITHOUT ROWID;
CREATE INDEX location_segment ON location (segment);

CREATE TABLE lease (
  name    TEXT    PRIMARY KEY,
  holder  TEXT    NOT NULL,
  token   INTEGER NOT NULL,
  expires INTEGER NOT NULL
) WITHOUT ROWID;
