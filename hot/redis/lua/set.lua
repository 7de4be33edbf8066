-- set: what writers committed, one for each key: the values, and in the last
-- argument of all of them token, rank, 1 for a tombstone and TTL. Answers 1 where
-- it is stored.
local tombstone_ttl, what, WHAT = tonumber(ARGV[1]), ARGV[#ARGV], 33
local unseen = now + tombstone_ttl

-- waits reports whether a key, of which start is read, waits for the write of
-- token and nothing else: so do most.
local ALONE = struct.pack('>BBI2', FORMAT, NOTHING, 1)
local function waits(start, token)
  return #start == HEADER + TOKEN and string.sub(start, 1, 4) == ALONE
    and string.sub(start, HEADER + 1, HEADER + 8) == token and string.byte(start, HEADER + TOKEN) == 0
    and now < struct.unpack('>I8', start, HEADER + 9)
end

return each(function(i)
  local key, value = KEYS[i], ARGV[i + 1]
  local token, rank, deleted, ttl = struct.unpack('>c8c16BI8', what, WHAT * (i - 1) + 1)
  deleted = deleted == 1
  local stands = deleted or ttl > 0
  local until_then = now + (deleted and tombstone_ttl or ttl)
  local start = redis.call('GETRANGE', key, 0, HEADER + TOKEN)
  if stands and waits(start, token) and above(rank, string.sub(start, 5, 20)) then
    store(key, struct.pack(LAYOUT, FORMAT, deleted and TOMBSTONE or VALUE, 0, rank, unseen, until_then, NONE, 0)
      .. value, math.max(unseen, until_then))
    return 1
  end
  load(key)
  local may, changed = true, lease ~= NONE
  if token ~= NONE then
    local mine = take(token)
    may = mine and string.byte(mine, TOKEN) == 0
    changed = changed or mine
  end
  lease = NONE
  local newer = see(rank, tombstone_ttl)
  local stored = newer and may and #tokens == 0 and stands
  if stored then
    kind, ends = deleted and TOMBSTONE or VALUE, until_then
  end
  if newer or changed then save(stored and value or nil) end
  return stored and 1 or 0
end)
