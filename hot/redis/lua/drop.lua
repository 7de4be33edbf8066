-- drop: the value goes if it is of that rank; '' names any.
local rank, tombstone_ttl = ARGV[1], tonumber(ARGV[2])
local s = load()
if s.kind == VALUE and (rank == '' or s.seen == rank) then
  s.kind, s.seen_until = NOTHING, now + tombstone_ttl
  save(s)
end
return 1
