DROP VIEW live_memory;
DROP TABLE memory_delta, memory_frequency, memory_count, memory_link, memory, memory_space, memory_dormant, memory_vector, memory_fresh;
DELETE FROM meta WHERE name = 'embedding_active' OR name = 'embedding_target';
