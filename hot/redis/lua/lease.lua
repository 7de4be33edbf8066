-- lease: a reader that found nothing asks to be the one who fills.
-- Answers 1 granted, 0 and the lease that another holds, or what the key holds
-- by now.
load(KEYS[1])
if kind ~= NOTHING or #tokens > 0 then
  return {2, clock[1], clock[2], redis.call('GET', KEY)}
end
if lease ~= NONE then return {0, lease} end
lease, lease_until = ARGV[1], now + ARGV[2]
save()
return {1}
