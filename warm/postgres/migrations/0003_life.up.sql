-- A daemon that runs while its schema is dropped and rebuilt knows numbers of
-- the one before. Whatever it writes asks this first.
CREATE FUNCTION life(expected text) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM meta WHERE name = 'epoch' AND word = expected) THEN
		RAISE EXCEPTION 'the store lives another life' USING ERRCODE = 'TI001';
	END IF;
END $$;
