-- ANALYZE keeps samples of what it reads, also when that is gone. Nothing is planned
-- by what these columns hold, so it keeps none of them; what it keeps of others is
-- sampled anew at the end of an erase.
ALTER TABLE version     ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE projection  ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE batch       ALTER COLUMN results SET STATISTICS 0, ALTER COLUMN changes SET STATISTICS 0;
ALTER TABLE request     ALTER COLUMN result SET STATISTICS 0;
ALTER TABLE memory      ALTER COLUMN entry SET STATISTICS 0;
ALTER TABLE erasure     ALTER COLUMN namespace SET STATISTICS 0, ALTER COLUMN id SET STATISTICS 0, ALTER COLUMN prefix SET STATISTICS 0, ALTER COLUMN owner SET STATISTICS 0;
ALTER TABLE erasure_key ALTER COLUMN namespace SET STATISTICS 0, ALTER COLUMN id SET STATISTICS 0;
