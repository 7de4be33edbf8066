-- set: what writers committed, one for each key: token, rank, 1 for a tombstone
-- and TTL in one string, the value in another. Answers 1 where it is stored.
local tombstone_ttl = tonumber(ARGV[1])
return each(function(key)
  load(KEYS[key])
  local token, rank, deleted, ttl = struct.unpack('>c8c16BI8', ARGV[2 * key])
  deleted = deleted == 1
  local may, changed = true, lease ~= NONE
  if token ~= NONE then
    local mine = take(token)
    may = mine and string.byte(mine, TOKEN) == 0
    changed = changed or mine
  end
  lease = NONE
  local newer = see(rank, tombstone_ttl)
  local stored = newer and may and #tokens == 0 and (deleted or ttl > 0)
  if stored then
    kind = deleted and TOMBSTONE or VALUE
    ends = now + (deleted and tombstone_ttl or ttl)
  end
  if newer or changed then save(stored and ARGV[2 * key + 1] or nil) end
  return stored and 1 or 0
end)
