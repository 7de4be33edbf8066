-- unmark: a write did not commit.
if take(ARGV[1]) then save() end
return 1
