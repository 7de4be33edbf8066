package outage_test

// sharedOutages are those that two daemons on the same tiers live through
// together: what one wrote the other must not miss, and each notices by itself.
func sharedOutages(s *servers) []outage {
	noRedis := sees{write: "not hot", hit: "warm", miss: "warm", cold: "cold", ephemeral: "503", list: "200", ready: "200"}
	noPostgres := sees{write: "503", hit: "hot*", miss: "503", cold: "503", ephemeral: "hot", list: "503", ready: "503"}
	return []outage{
		{tier: "Redis", how: "killed", down: s.on("kill", "redis"), up: s.on("start", "redis"), sees: noRedis, more: redisKept},
		{tier: "Redis", how: "hung", long: true, down: s.on("pause", "redis"), up: s.on("resume", "redis"), sees: noRedis, more: redisKept},
		{tier: "PostgreSQL", how: "killed", long: true, down: s.on("kill", "postgres"), up: s.on("start", "postgres"), sees: noPostgres, more: historyAway},
		{tier: "PostgreSQL", how: "hung", long: true, down: s.on("pause", "postgres"), up: s.on("resume", "postgres"), sees: noPostgres, more: historyAway},
		{tier: "primary", how: "killed", long: true, down: s.on("kill", "minio"), up: s.on("start", "minio"), sees: normal, more: demotionWaits},
		{tier: "backup", how: "hung", long: true, down: s.on("pause", "minio-backup"), up: s.on("resume", "minio-backup"), sees: normal, more: demotionWaits},
	}
}
