-- set: what a writer committed. Answers 1 when it is stored.
local token, rank, deleted = ARGV[1], ARGV[2], ARGV[3] == '1'
local ttl, tombstone_ttl, value = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local may, changed = true, lease ~= NONE
if token ~= NONE then
  local mine = take(token)
  may = mine and mine.spoiled == 0
  changed = changed or mine
end
lease = NONE
local newer = see(rank, tombstone_ttl)
local stored = newer and may and #tokens == 0 and (deleted or ttl > 0)
if stored then
  kind = deleted and TOMBSTONE or VALUE
  ends = now + (deleted and tombstone_ttl or ttl)
end
if newer or changed then save(stored and value or nil) end
return stored and 1 or 0
