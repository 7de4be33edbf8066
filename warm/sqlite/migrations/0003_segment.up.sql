-- The worker that started a segment, by the name of its lease; and when a
-- segment became deleting, 0 until then.
ALTER TABLE segment ADD COLUMN owner TEXT NOT NULL DEFAULT 'archive';
ALTER TABLE segment ADD COLUMN deleting INTEGER NOT NULL DEFAULT 0;
