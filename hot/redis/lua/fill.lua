-- fill: what the holder of the lease loaded. The lease is spent whatever comes
-- of it. Answers 1 when it is stored.
local lease, rank, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local tombstone_ttl, value = tonumber(ARGV[4]), ARGV[5]
local s = load()
if lease == NONE or s.lease ~= lease then return 0 end
s.lease = NONE
local stored = false
if #s.tokens == 0 and compare(rank, s.seen) >= 0 then
  see(s, rank, tombstone_ttl)
  if ttl > 0 then
    s.kind, s.ends, stored = VALUE, now + ttl, true
  end
end
save(s, stored and value or nil)
return stored and 1 or 0
