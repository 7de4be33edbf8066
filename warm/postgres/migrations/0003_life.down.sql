DROP FUNCTION life(text);
