-- begun is when a memory happened, or was created: what lies next to it in its
-- session is found without reading all of that.
ALTER TABLE memory ADD COLUMN begun bigint;
UPDATE memory m SET begun = coalesce(m.at, h.created) FROM head h WHERE h.kid = m.kid;
DELETE FROM memory WHERE begun IS NULL;
ALTER TABLE memory ALTER COLUMN begun SET NOT NULL;
CREATE INDEX memory_session ON memory (nid, session, begun) WHERE session <> '';

CREATE OR REPLACE VIEW live_memory AS
  SELECT m.kid, m.nid, n.tenant, n.name AS namespace, h.id, h.version, h.owner, h.created, h.accessed, h.updated,
    CASE WHEN h.flags & 1 = 1 THEN 0 ELSE h.expires END AS expires,
    m.type, m.agent, m.app, m.session, m.speaker, m.begun AS at, coalesce(m.until, m.begun) AS until, m.ends, m.used, m.uses,
    m.importance, m.length, m.tids, m.freqs, h.nid AS of
  FROM memory m JOIN head h ON h.kid = m.kid JOIN namespace n ON n.nid = m.nid
  WHERE h.op = 1;
