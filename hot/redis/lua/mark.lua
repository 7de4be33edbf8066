-- mark: a write is on its way to warm. A tombstone goes with the value: if the
-- writer commits and dies, the key must lapse to empty, not to "deleted".
local token, token_ttl, tombstone_ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local s = load()
s.kind, s.lease, s.seen_until = NOTHING, NONE, now + tombstone_ttl
local i = find(s, token)
if i then
  s.tokens[i].ends = now + token_ttl
elseif #s.tokens < MAX_TOKENS then
  s.tokens[#s.tokens + 1] = {token = token, ends = now + token_ttl, spoiled = 0}
else
  return redis.error_reply('ERR tierd: too many writes are pending')
end
save(s)
return 1
