-- unmark: a write did not commit.
local s = load()
if take(s, ARGV[1]) then save(s) end
return 1
