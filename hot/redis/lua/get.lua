-- get: what the key holds, and the time by which to read it.
return {clock[1], clock[2], redis.call('GET', KEY)}
