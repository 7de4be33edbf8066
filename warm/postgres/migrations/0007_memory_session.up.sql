-- begun is when a memory happened, or was created: what lies next to it in its
-- session is found without reading all of that.
ALTER TABLE memory ADD COLUMN begun bigint;
UPDATE memory m SET begun = coalesce(m.at, h.created) FROM head h WHERE h.kid = m.kid;
DELETE FROM memory WHERE begun IS NULL;
ALTER TABLE memory ALTER COLUMN begun SET NOT NULL;
CREATE INDEX memory_session ON memory (nid, session, begun) WHERE session <> '';
