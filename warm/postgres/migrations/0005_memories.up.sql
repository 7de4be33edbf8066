-- Vectors are columns of pgvector's types. The extension may lie in any schema;
-- where there is none it goes to public.
DO $$
DECLARE
  place text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('tierd.extension'), 0);
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') THEN
    IF NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
      RAISE EXCEPTION 'this server has no pgvector, which keeps the vectors of memories: install pgvector 0.8 or later for its version of PostgreSQL (Debian: postgresql-NN-pgvector, Docker: the image pgvector/pgvector) and start again'
        USING ERRCODE = 'TI002';
    END IF;
    BEGIN
      IF has_schema_privilege('public', 'CREATE') THEN
        CREATE EXTENSION IF NOT EXISTS vector SCHEMA public;
      ELSE
        CREATE EXTENSION IF NOT EXISTS vector;
      END IF;
    EXCEPTION WHEN insufficient_privilege THEN
      RAISE EXCEPTION 'this role may not install pgvector in the database: have a superuser run CREATE EXTENSION vector there, and start again' USING ERRCODE = 'TI002';
    END;
  END IF;
  IF (SELECT string_to_array(regexp_replace(extversion, '[^0-9.]', '', 'g'), '.')::int[] < ARRAY[0, 8] FROM pg_extension WHERE extname = 'vector') THEN
    RAISE EXCEPTION 'the database has pgvector %, which can not search on until enough is found: install 0.8 or later, run ALTER EXTENSION vector UPDATE, and start again',
      (SELECT extversion FROM pg_extension WHERE extname = 'vector') USING ERRCODE = 'TI002';
  END IF;
  SELECT n.nspname INTO place FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector';

  -- What is searched by: without an index until background work moves it on; in
  -- indexes by space and namespace, where there are many; and out of them, in
  -- half the size, once idle. owner is the head's. MAIN: a vector lies in its
  -- row as long as a page can hold it.
  EXECUTE format('CREATE TABLE memory_fresh   (kid bigint, sid integer, nid integer NOT NULL, owner text COLLATE "C" NOT NULL, v %I.vector  STORAGE MAIN NOT NULL, PRIMARY KEY (kid, sid))', place);
  EXECUTE format('CREATE TABLE memory_vector  (kid bigint, sid integer, nid integer NOT NULL, owner text COLLATE "C" NOT NULL, v %I.vector  STORAGE MAIN NOT NULL, PRIMARY KEY (kid, sid))', place);
  EXECUTE format('CREATE TABLE memory_dormant (kid bigint, sid integer, nid integer NOT NULL, owner text COLLATE "C" NOT NULL, v %I.halfvec STORAGE MAIN NOT NULL, PRIMARY KEY (kid, sid))', place);
END $$;
CREATE INDEX memory_fresh_space   ON memory_fresh   (nid, sid, owner);
CREATE INDEX memory_vector_space  ON memory_vector  (nid, sid, owner);
CREATE INDEX memory_dormant_space ON memory_dormant (nid, sid, owner);

CREATE TABLE memory_space (
  sid  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE
);

-- Index entries of memories. A row stands beside a live head whose digest is
-- body, and goes with it; whoever writes or moves vectors locks it first.
-- tids are hashes of the namespace with a term, or with an attribute; freqs are
-- of the first of them, which are the terms. Times are NULL for none.
CREATE TABLE memory (
  kid        bigint   PRIMARY KEY,
  at         bigint,
  until      bigint,
  ends       bigint,
  used       bigint,
  uses       bigint   NOT NULL,
  importance double precision NOT NULL,
  nid        integer  NOT NULL,
  length     integer  NOT NULL,
  analyzer   integer  NOT NULL,
  attempts   integer  NOT NULL,
  status     smallint NOT NULL, -- 1 pending, 2 indexed, 4 failed
  body       bytea    NOT NULL,
  text       bytea    NOT NULL, -- digest of what was remembered
  type       text COLLATE "C" NOT NULL,
  agent      text COLLATE "C" NOT NULL,
  app        text COLLATE "C" NOT NULL,
  session    text COLLATE "C" NOT NULL,
  speaker    text COLLATE "C" NOT NULL,
  tids       bigint[]  NOT NULL,
  freqs      integer[] NOT NULL,
  entry      bytea     NOT NULL -- terms and links, as they were
) WITH (fillfactor = 85);
CREATE INDEX memory_text ON memory (nid, text);
CREATE INDEX memory_tids ON memory USING gin (tids) WITH (gin_pending_list_limit = 512);

CREATE TABLE memory_link (
  kid      bigint  NOT NULL,
  nid      integer NOT NULL,
  target   bytea   NOT NULL,
  relation text COLLATE "C" NOT NULL,
  PRIMARY KEY (kid, target, relation)
);
CREATE INDEX memory_link_target ON memory_link (nid, target);

-- How many memories of a namespace there are, how long, and with which tids: as
-- of some moment, and every change since. Nobody waits for a count.
CREATE TABLE memory_count (
  nid    integer PRIMARY KEY,
  n      bigint  NOT NULL,
  length bigint  NOT NULL
);
CREATE TABLE memory_frequency (
  tid bigint  PRIMARY KEY,
  nid integer NOT NULL,
  n   bigint  NOT NULL
) WITH (fillfactor = 70);
CREATE TABLE memory_delta (
  seq    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  nid    integer  NOT NULL,
  length integer  NOT NULL,
  sign   smallint NOT NULL, -- 1 or -1
  tids   bigint[] NOT NULL
);
CREATE INDEX memory_delta_space ON memory_delta (nid);

-- What an index may read of memories that were not deleted: it looks at the
-- clock itself. expires is 0 for never; of is nid once more, by which heads are found.
CREATE VIEW live_memory AS
  SELECT m.kid, m.nid, n.tenant, n.name AS namespace, h.id, h.version, h.owner, h.created, h.accessed, h.updated,
    CASE WHEN h.flags & 1 = 1 THEN 0 ELSE h.expires END AS expires,
    m.type, m.agent, m.app, m.session, m.speaker, coalesce(m.at, h.created) AS at, coalesce(m.until, m.at, h.created) AS until, m.ends, m.used, m.uses,
    m.importance, m.length, m.tids, m.freqs, h.nid AS of
  FROM memory m JOIN head h ON h.kid = m.kid JOIN namespace n ON n.nid = m.nid
  WHERE h.op = 1;
