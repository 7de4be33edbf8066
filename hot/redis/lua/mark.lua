-- mark: a write is on its way to warm. A tombstone goes with the value: if the
-- writer commits and dies, the key must lapse to empty, not to "deleted".
local token, token_ttl, tombstone_ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
kind, lease, seen_until = NOTHING, NONE, now + tombstone_ttl
local i = find(token)
if i then
  tokens[i].ends = now + token_ttl
elseif #tokens < MAX_TOKENS then
  tokens[#tokens + 1] = {token = token, ends = now + token_ttl, spoiled = 0}
else
  return redis.error_reply('ERR tierd: too many writes are pending')
end
save()
return 1
