CREATE OR REPLACE VIEW live_memory AS
  SELECT m.kid, m.nid, n.tenant, n.name AS namespace, h.id, h.version, h.owner, h.created, h.accessed, h.updated,
    CASE WHEN h.flags & 1 = 1 THEN 0 ELSE h.expires END AS expires,
    m.type, m.agent, m.app, m.session, m.speaker, coalesce(m.at, h.created) AS at, coalesce(m.until, m.at, h.created) AS until, m.ends, m.used, m.uses,
    m.importance, m.length, m.tids, m.freqs, h.nid AS of
  FROM memory m JOIN head h ON h.kid = m.kid JOIN namespace n ON n.nid = m.nid
  WHERE h.op = 1;
DROP INDEX memory_session;
ALTER TABLE memory DROP COLUMN begun;
