-- fill: what the holder of the lease loaded. The lease is spent whatever comes
-- of it. Answers 1 when it is stored.
load(KEYS[1])
local mine, rank, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local tombstone_ttl, value = tonumber(ARGV[4]), ARGV[5]
if mine == NONE or lease ~= mine then return 0 end
lease = NONE
local stored = false
if #tokens == 0 and not above(seen, rank) then
  see(rank, tombstone_ttl)
  if ttl > 0 then
    kind, ends, stored = VALUE, now + ttl, true
  end
end
save(stored and value or nil)
return stored and 1 or 0
