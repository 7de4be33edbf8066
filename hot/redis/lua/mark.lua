-- mark: writes are on their way to warm, one under a token of its own for each
-- key. A tombstone goes with the value: if the writer commits and dies, the key
-- must lapse to empty, not to "deleted".
local token_ends, unseen = struct.pack('>I8B', now + ARGV[1], 0), now + ARGV[2]
return each(function(key)
  load(KEYS[key])
  local token = ARGV[key + 2]
  kind, lease, seen_until = NOTHING, NONE, unseen
  local i = find(token)
  if i then
    tokens[i] = token .. string.sub(token_ends, 1, 8) .. string.sub(tokens[i], TOKEN)
  elseif #tokens < MAX_TOKENS then
    tokens[#tokens + 1] = token .. token_ends
  else
    return 'ERR tierd: too many writes are pending'
  end
  save()
  return 1
end)
