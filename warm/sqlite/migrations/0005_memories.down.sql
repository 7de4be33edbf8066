DROP TABLE memory_link;
DROP TABLE memory_vector;
DROP TABLE memory_space;
DROP TABLE memory;
DELETE FROM meta WHERE name IN ('embedding_active', 'embedding_target');
