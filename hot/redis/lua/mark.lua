-- mark: writes are on their way to warm, one under a token of its own for each
-- key; the last argument has the tokens. A tombstone goes with the value: if the
-- writer commits and dies, the key must lapse to empty, not to "deleted".
local ends_at, unseen = now + ARGV[1], now + ARGV[2]
local token_ends, last = struct.pack('>I8B', ends_at, 0), math.max(ends_at, unseen)

-- A key without tokens, which most are, keeps what it has seen, between these.
local IDLE = struct.pack('>I2', 0)
local head, rest = struct.pack('>BBI2', FORMAT, NOTHING, 1), struct.pack('>I8I8c8I8', unseen, 0, NONE, 0)

local function idle(key)
  local start = redis.call('GETRANGE', key, 0, HEADER - 1)
  if start == '' then return NONE .. NONE end
  if #start == HEADER and string.byte(start) == FORMAT and string.sub(start, 3, 4) == IDLE then
    return string.sub(start, 5, 20)
  end
end

return each(function(i)
  local key, token = KEYS[i], string.sub(ARGV[#ARGV], 8 * i - 7, 8 * i)
  local has_seen = idle(key)
  if has_seen then
    store(key, head .. has_seen .. rest .. token .. token_ends, last)
    return 1
  end
  load(key)
  kind, lease, seen_until = NOTHING, NONE, unseen
  local at = find(token)
  if at then
    tokens[at] = token .. string.sub(token_ends, 1, 8) .. string.sub(tokens[at], TOKEN)
  elseif #tokens < MAX_TOKENS then
    tokens[#tokens + 1] = token .. token_ends
  else
    return 'ERR tierd: too many writes are pending'
  end
  save()
  return 1
end)
