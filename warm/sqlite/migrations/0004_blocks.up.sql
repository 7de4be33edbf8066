-- location.blocks is a BLOB (varints) from here on; TEXT of older rows is JSON,
-- and stays readable. Nothing changes but who may open the file.
SELECT 1;
