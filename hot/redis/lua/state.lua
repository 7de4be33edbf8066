-- One Redis key holds all that is known of a document. Every script begins
-- with this file, and is the only writer of its keys while it runs.
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

local FORMAT, HEADER, TOKEN, MAX_TOKENS = 1, 52, 17, 65535
local LAYOUT = '>BBI2c16I8I8c8I8'
local NOTHING, VALUE, TOMBSTONE = 0, 1, 2
local NONE = '\0\0\0\0\0\0\0\0' -- no token, no lease

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- The state of KEY, without what has lapsed. A script loads it, changes it and
-- calls save. tokens hold their 17 bytes each.
local KEY, kind, seen, seen_until, ends, lease, lease_until, tokens
local value_at -- the offset of the value in the key as it is

local function load(key)
  KEY, kind, seen, seen_until, ends = key, NOTHING, NONE .. NONE, 0, 0
  lease, lease_until, tokens, value_at = NONE, 0, {}, HEADER
  -- One read fetches the tokens too, unless there are many.
  local start = redis.call('GETRANGE', key, 0, 135)
  if #start < HEADER then return end
  local format, n
  format, kind, n, seen, seen_until, ends, lease, lease_until = struct.unpack(LAYOUT, start)
  if format ~= FORMAT then
    error({err = 'ERR tierd: the key is of format ' .. format})
  end
  if n > 0 then
    value_at = HEADER + n * TOKEN
    if value_at > #start then start = redis.call('GETRANGE', key, 0, value_at - 1) end
    -- A token that lapses spoils those beside it.
    for at = HEADER + 1, value_at, TOKEN do
      if now < struct.unpack('>I8', start, at + 8) then
        tokens[#tokens + 1] = string.sub(start, at, at + TOKEN - 1)
      end
    end
    if #tokens < n then
      for i = 1, #tokens do tokens[i] = string.sub(tokens[i], 1, 16) .. '\1' end
    end
  end
  if ends > 0 and now >= ends then kind = NOTHING end
  if now >= lease_until then lease = NONE end
end

-- store makes whole all that a key holds, until last; for good where it is nil.
local function store(key, whole, last)
  local done
  if last then
    done = redis.pcall('SET', key, whole, 'PXAT', math.ceil(last / 1000))
  else
    done = redis.pcall('SET', key, whole)
  end
  if done.err then
    -- A full server takes no mark. Then what the mark would hide goes.
    redis.call('DEL', key)
    error(done)
  end
end

-- save writes the state. value is what stands from now on, nil to keep the
-- bytes that do. The key lives for as long as anything in it.
local function save(value)
  if kind == NOTHING then ends = 0 end
  if lease == NONE then lease_until = 0 end
  local whole = struct.pack(LAYOUT, FORMAT, kind, #tokens, seen, seen_until, ends, lease, lease_until)
  local last = math.max(seen_until, ends, lease_until)
  for i = 1, #tokens do
    whole = whole .. tokens[i]
    last = math.max(last, (struct.unpack('>I8', tokens[i], 9)))
  end
  if kind == VALUE then
    whole = whole .. (value or redis.call('GETRANGE', KEY, value_at, -1))
  end
  if kind ~= NOTHING and ends == 0 then
    store(KEY, whole)
  elseif last > now then
    store(KEY, whole, last)
  else
    redis.call('DEL', KEY)
  end
end

-- above reports whether rank a, a version and a revision, is higher than b.
local function above(a, b)
  if a == b then return false end
  local a1, a2, a3, a4 = struct.unpack('>I4I4I4I4', a)
  local b1, b2, b3, b4 = struct.unpack('>I4I4I4I4', b)
  if a1 ~= b1 then return a1 > b1 end
  if a2 ~= b2 then return a2 > b2 end
  if a3 ~= b3 then return a3 > b3 end
  return a4 > b4
end

-- see raises what was seen to rank and drops what is older. It reports whether
-- rank is newer than everything seen before.
local function see(rank, tombstone_ttl)
  if not above(rank, seen) then return false end
  seen, seen_until, kind = rank, now + tombstone_ttl, NOTHING
  return true
end

-- find is where a token is, nil if it does not live.
local function find(token)
  for i = 1, #tokens do
    if string.sub(tokens[i], 1, 8) == token then return i end
  end
end

-- take removes a token and returns it, nil if it does not live.
local function take(token)
  local i = find(token)
  return i and table.remove(tokens, i)
end

-- each does act, told the number of the key, to every key, and answers what it
-- returned, or the text of what went wrong: one key's trouble is its own.
local function each(act)
  local answers = {}
  for i = 1, #KEYS do
    local ok, answer = pcall(act, i)
    if not ok and type(answer) == 'table' then answer = answer.err end
    answers[i] = answer
  end
  return answers
end
