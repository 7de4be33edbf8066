-- The changes of a usual batch stay in its row: out of line they are written
-- once more, in pieces with an index of their own.
ALTER TABLE batch SET (toast_tuple_target = 8160);
