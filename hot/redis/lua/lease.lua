-- lease: a reader that found nothing asks to be the one who fills.
-- Answers 1 granted, 0 held by another, or what the key holds by now.
local lease, ttl = ARGV[1], tonumber(ARGV[2])
local s = load()
if s.kind ~= NOTHING or #s.tokens > 0 then
  return {2, clock[1], clock[2], redis.call('GET', KEY)}
end
if s.lease ~= NONE then return {0} end
s.lease, s.lease_until = lease, now + ttl
save(s)
return {1}
