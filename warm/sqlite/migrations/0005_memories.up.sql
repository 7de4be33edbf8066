-- Index entries of memories. A row stands beside a live head whose digest is
-- body, and goes with it. entry holds what is not searched by SQL.
CREATE TABLE memory (
  kid      INTEGER PRIMARY KEY,
  ns       INTEGER NOT NULL,
  analyzer INTEGER NOT NULL,
  status   INTEGER NOT NULL, -- 1 pending, 2 indexed, 3 failed
  attempts INTEGER NOT NULL,
  body     BLOB    NOT NULL, -- digest of the document
  text     BLOB    NOT NULL, -- digest of what was remembered
  entry    BLOB    NOT NULL
);
CREATE INDEX memory_text ON memory (ns, text);

CREATE TABLE memory_space (
  sid  INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);

CREATE TABLE memory_vector (
  vid    INTEGER PRIMARY KEY,
  kid    INTEGER NOT NULL,
  space  INTEGER NOT NULL,
  vector BLOB    NOT NULL -- float32, little endian
);
CREATE UNIQUE INDEX memory_vector_key   ON memory_vector (kid, space);
CREATE INDEX        memory_vector_space ON memory_vector (space);

CREATE TABLE memory_link (
  kid      INTEGER NOT NULL,
  ns       INTEGER NOT NULL,
  target   BLOB    NOT NULL,
  relation TEXT    NOT NULL,
  PRIMARY KEY (kid, target, relation)
) WITHOUT ROWID;
CREATE INDEX memory_link_target ON memory_link (ns, target);
