package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

const (
	// pageSize is how many keys Redis looks at for one page of a scan.
	pageSize = 500
	// peekSize are the bytes of a key that tell what stands: the header and a
	// few tokens. A value seldom has any beside it.
	peekSize = headerSize + 4*tokenSize
)

// Scan implements hot.Store. Redis looks at every key of its database: the price
// grows with what it holds, not with what is found. After a failover it fails
// until the epoch has changed.
func (s *Store) Scan(ctx context.Context, tenant, namespace, prefix string, fn func(tiering.Key) bool) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	e := s.epoch.Load()
	space := e.space(tenant, namespace)
	err := s.eachPage(ctx, space+prefix, func(node goredis.UniversalClient, keys []string) error {
		present, err := present(ctx, node, keys)
		if err != nil {
			return err
		}
		if !s.stands(e) {
			return ErrFailedOver
		}
		for _, key := range present {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !fn(tiering.Key{Tenant: tenant, Namespace: namespace, ID: key[len(space):]}) {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough ends a walk over pages.
var errEnough = errors.New("redis: enough")

// present are those of keys that can be served.
func present(ctx context.Context, node goredis.UniversalClient, keys []string) ([]string, error) {
	p := node.Pipeline()
	clock := p.Time(ctx)
	peeks := make([]*goredis.StringCmd, len(keys))
	for i, key := range keys {
		peeks[i] = p.GetRange(ctx, key, 0, peekSize-1)
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, err
	}
	at := clock.Val().UnixMicro()
	found := keys[:0]
	for i, peek := range peeks {
		st, err := decodeState([]byte(peek.Val()), at)
		if err == nil && st.kind == kindValue && !st.pending {
			found = append(found, keys[i])
		}
	}
	return found, nil
}

// eachPage calls fn with the keys that begin with prefix, a page at a time and
// one server after the other.
func (s *Store) eachPage(ctx context.Context, prefix string, fn func(node goredis.UniversalClient, keys []string) error) error {
	nodes, err := s.servers(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		for cursor := uint64(0); ; {
			var keys []string
			if keys, cursor, err = node.Scan(ctx, cursor, literal(prefix)+"*", pageSize).Result(); err != nil {
				return err
			}
			if len(keys) > 0 {
				if err := fn(node, keys); err != nil {
					return err
				}
			}
			if cursor == 0 {
				break
			}
		}
	}
	return nil
}

// literal is the pattern that matches prefix and nothing else.
func literal(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix)
}

// servers are those that hold keys.
func (s *Store) servers(ctx context.Context) ([]goredis.UniversalClient, error) {
	if !s.clustered {
		return []goredis.UniversalClient{s.client}, nil
	}
	var mu sync.Mutex
	var nodes []goredis.UniversalClient
	err := s.cluster.ForEachMaster(ctx, func(_ context.Context, node *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	return nodes, err
}

// eachServer calls fn for every server that holds keys and returns the first
// error.
func (s *Store) eachServer(ctx context.Context, fn func(context.Context, goredis.UniversalClient) error) error {
	nodes, err := s.servers(ctx)
	for _, node := range nodes {
		if failed := fn(ctx, node); err == nil {
			err = failed
		}
	}
	return err
}

// Stats implements hot.Store. Items, Bytes and Evictions are those of the
// servers, whoever else uses them: items are keys, with marks among them.
// Evictions, hits and misses count from Open.
func (s *Store) Stats(ctx context.Context) (hot.Stats, error) {
	if err := s.ready(ctx); err != nil {
		return hot.Stats{}, err
	}
	st, err := s.serverStats(ctx)
	if err != nil {
		return hot.Stats{}, err
	}
	st.Evictions = max(st.Evictions-s.lost, 0) // a restarted server counts anew
	st.Hits, st.Misses = s.hits.Load(), s.misses.Load()
	return st, nil
}

// serverStats adds up what the servers say of themselves.
func (s *Store) serverStats(ctx context.Context) (hot.Stats, error) {
	var sum hot.Stats
	err := s.eachServer(ctx, func(ctx context.Context, node goredis.UniversalClient) error {
		p := node.Pipeline()
		size, memory, stats := p.DBSize(ctx), p.InfoMap(ctx, "memory"), p.InfoMap(ctx, "stats")
		if _, err := p.Exec(ctx); err != nil {
			return err
		}
		number := func(text string) int64 {
			n, _ := strconv.ParseInt(text, 10, 64) // left out by some servers
			return n
		}
		sum.Items += size.Val()
		sum.Bytes += number(memory.Val()["Memory"]["used_memory"])
		sum.Evictions += number(stats.Val()["Stats"]["evicted_keys"])
		return nil
	})
	return sum, err
}
