-- drop: the value goes if it is of that rank; '' names any.
load(KEYS[1])
local rank, tombstone_ttl = ARGV[1], tonumber(ARGV[2])
if kind == VALUE and (rank == '' or seen == rank) then
  kind, seen_until = NOTHING, now + tombstone_ttl
  save()
end
return 1
