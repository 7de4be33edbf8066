ALTER TABLE batch RESET (toast_tuple_target);
