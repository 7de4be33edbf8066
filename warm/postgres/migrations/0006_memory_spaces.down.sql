DROP INDEX memory_fresh_sid, memory_vector_sid, memory_dormant_sid;
