-- One Redis key holds all that is known of a document. Every script begins
-- with this file, and is the only writer of the key while it runs.
--
--   offset   bytes
--   0        1      format: 1
--   1        1      what stands: 0 nothing, 1 a value, 2 a tombstone
--   2        2      n, the number of pending tokens
--   4        16     seen: version and revision, 64 bits each
--   20       8      seen is remembered until then at least
--   28       8      the value or tombstone stands until then; 0: no end
--   36       8      the lease; 0: none
--   44       8      the lease lives until then
--   52       17*n   the tokens: token, its end, 1 when it is spoiled
--   52+17*n         the value
--
-- Integers are big-endian. Times are microseconds of Redis' clock, which a Lua
-- number holds exactly. Versions and tokens need all 64 bits: they stay strings,
-- and a version is compared in halves of 32 bits.

local KEY = KEYS[1]
local FORMAT, HEADER, TOKEN, MAX_TOKENS = 1, 52, 17, 65535
local NOTHING, VALUE, TOMBSTONE = 0, 1, 2
local NONE = string.rep('\0', 8) -- no token, no lease

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- load reads the state, without what has lapsed. A token that lapses spoils
-- those beside it.
local function load()
  local s = {
    kind = NOTHING, seen = NONE .. NONE, seen_until = 0, ends = 0,
    lease = NONE, lease_until = 0, tokens = {}, offset = HEADER,
  }
  local header = redis.call('GETRANGE', KEY, 0, HEADER - 1)
  if #header < HEADER then return s end
  local format, n
  format, s.kind, n, s.seen, s.seen_until, s.ends, s.lease, s.lease_until =
    struct.unpack('>BBI2c16I8I8c8I8', header)
  if format ~= FORMAT then
    error({err = 'ERR tierd: the key is of format ' .. format})
  end
  if n > 0 then
    local lapsed = false
    s.offset = HEADER + n * TOKEN
    local raw = redis.call('GETRANGE', KEY, HEADER, s.offset - 1)
    for i = 1, n do
      local token, ends, spoiled = struct.unpack('>c8I8B', raw, (i - 1) * TOKEN + 1)
      if now < ends then
        s.tokens[#s.tokens + 1] = {token = token, ends = ends, spoiled = spoiled}
      else
        lapsed = true
      end
    end
    if lapsed then
      for _, t in ipairs(s.tokens) do t.spoiled = 1 end
    end
  end
  if s.ends > 0 and now >= s.ends then s.kind = NOTHING end
  if now >= s.lease_until then s.lease = NONE end
  return s
end

-- save writes the state. value is what stands from now on, nil to keep the
-- bytes that do. The key lives for as long as anything in it.
local function save(s, value)
  local last = s.seen_until
  local parts = {''}
  for _, t in ipairs(s.tokens) do
    last = math.max(last, t.ends)
    parts[#parts + 1] = struct.pack('>c8I8B', t.token, t.ends, t.spoiled)
  end
  if s.kind == VALUE then
    parts[#parts + 1] = value or redis.call('GETRANGE', KEY, s.offset, -1)
  end
  if s.kind == NOTHING then s.ends = 0 end
  if s.lease == NONE then s.lease_until = 0 end
  last = math.max(last, s.ends, s.lease_until)
  parts[1] = struct.pack('>BBI2c16I8I8c8I8', FORMAT, s.kind, #s.tokens, s.seen,
    s.seen_until, s.ends, s.lease, s.lease_until)
  local whole = table.concat(parts)
  if s.kind ~= NOTHING and s.ends == 0 then
    redis.call('SET', KEY, whole)
  elseif last > now then
    redis.call('SET', KEY, whole, 'PXAT', string.format('%.0f', math.ceil(last / 1000)))
  else
    redis.call('DEL', KEY)
  end
end

-- compare orders two ranks, a version and a revision each: -1, 0 or 1.
local function compare(a, b)
  local x = {struct.unpack('>I4I4I4I4', a)}
  local y = {struct.unpack('>I4I4I4I4', b)}
  for i = 1, 4 do
    if x[i] < y[i] then return -1 end
    if x[i] > y[i] then return 1 end
  end
  return 0
end

-- see raises what was seen to rank and drops what is older. It reports whether
-- rank is newer than everything seen before.
local function see(s, rank, tombstone_ttl)
  if compare(rank, s.seen) <= 0 then return false end
  s.seen, s.seen_until, s.kind = rank, now + tombstone_ttl, NOTHING
  return true
end

local function find(s, token)
  for i, t in ipairs(s.tokens) do
    if t.token == token then return i end
  end
end

-- take removes a token and returns it, nil if it does not live.
local function take(s, token)
  local i = find(s, token)
  return i and table.remove(s.tokens, i)
end
