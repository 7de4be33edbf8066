-- get: what the key holds, and the time by which to read it. It stands alone,
-- without state.lua.
local clock = redis.call('TIME')
return {clock[1], clock[2], redis.call('GET', KEYS[1])}
