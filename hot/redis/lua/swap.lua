-- swap: the write of a document that lives here alone. Answers 0 and what
-- stands, or 1 and what the clock has decided: version and times.
load(KEYS[1])
local condition, wanted, deleted = ARGV[1], ARGV[2], ARGV[3] == '1'
local ttl_seconds, ttl_nanoseconds = tonumber(ARGV[4]), tonumber(ARGV[5])
local tombstone_ttl, never, flags, rest = tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]
local stands = kind == VALUE

local holds = condition == 'any'
  or condition == 'absent' and not stands
  or condition == 'exists' and stands
  or condition == 'version' and stands and string.sub(seen, 1, 8) == wanted
if not holds then
  return {0, stands and redis.call('GET', KEY) or false}
end

-- The version is the clock, or one above what was seen.
local high, low = struct.unpack('>I4I4', seen)
low = low + 1
if low == 2 ^ 32 then high, low = high + 1, 0 end
local clock_high, clock_low = math.floor(now / 2 ^ 32), now % 2 ^ 32
if clock_high > high or clock_high == high and clock_low > low then
  high, low = clock_high, clock_low
end
if high >= 2 ^ 31 then return redis.error_reply('ERR tierd: the key has no versions left') end
local version = struct.pack('>I4I4', high, low)

local second, nanosecond = tonumber(clock[1]), clock[2] * 1000
local at = struct.pack('>I8I4', second, nanosecond)
local created, expires, lives = at, never, ttl_seconds + ttl_nanoseconds > 0
if stands then created = redis.call('GETRANGE', KEY, value_at + 1, value_at + 12) end
if lives and not deleted then
  second, nanosecond = second + ttl_seconds, nanosecond + ttl_nanoseconds
  if nanosecond >= 1e9 then second, nanosecond = second + 1, nanosecond - 1e9 end
  expires = struct.pack('>I8I4', second, nanosecond)
end

lease = NONE
see(version .. NONE, tombstone_ttl)
if deleted then
  kind, ends = TOMBSTONE, now + tombstone_ttl
else
  kind, ends = VALUE, 0
  if lives then ends = now + ttl_seconds * 1e6 + math.ceil(ttl_nanoseconds / 1000) end
end
save(flags .. created .. at .. expires .. rest)
return {1, version, created, at, expires}
