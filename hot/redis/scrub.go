package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/hot"
)

var _ hot.Scrubber = (*Store)(nil)

// rewritePoll is how often a server is asked whether it has rewritten its file.
const rewritePoll = 20 * time.Millisecond

// Scrub implements hot.Scrubber. Markers of epochs stay: they hold nothing of a
// document. An append-only file is rewritten; the files of replicas and dumps
// that an operator takes are not reached.
func (s *Store) Scrub(ctx context.Context, lives []string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	e := s.epoch.Load()
	for _, life := range append([]string{e.Life}, lives...) {
		if err := s.removeLife(ctx, life, e); err != nil {
			return err
		}
	}
	return s.eachServer(ctx, rewriteFile)
}

// removeLife removes the entries of a life that are not of the epoch in use,
// nor of a later one that another daemon has gone on to.
func (s *Store) removeLife(ctx context.Context, life string, inUse *epoch) error {
	space := "tierd:" + escape(life) + "."
	return s.eachPage(ctx, space, func(node goredis.UniversalClient, keys []string) error {
		p := node.Pipeline()
		for _, key := range keys {
			count, _, entry := strings.Cut(key[len(space):], ":")
			n, err := strconv.ParseInt(count, 10, 64)
			if !entry || err != nil || life == inUse.Life && n >= inUse.Count {
				continue
			}
			p.Unlink(ctx, key)
		}
		if p.Len() == 0 {
			return nil
		}
		_, err := p.Exec(ctx)
		return err
	})
}

// rewriteFile has a server write its append-only file anew from what it holds,
// and waits until it has. A rewrite that was under way had begun too early.
func rewriteFile(ctx context.Context, node goredis.UniversalClient) error {
	if p, err := settled(ctx, node); err != nil || p["aof_enabled"] != "1" {
		return err
	}
	if err := node.BgRewriteAOF(ctx).Err(); err != nil {
		if refusal, refused := errors.AsType[goredis.Error](err); refused && !passing(refusal) {
			return nil
		}
		return err
	}
	p, err := settled(ctx, node)
	if err == nil && p["aof_last_bgrewrite_status"] == "err" {
		return errors.New("redis: the server could not rewrite its append-only file")
	}
	return err
}

// settled waits until no rewrite is under way, and returns what the server says
// of its files; nothing when it refuses to.
func settled(ctx context.Context, node goredis.UniversalClient) (map[string]string, error) {
	for {
		info, err := node.InfoMap(ctx, "persistence").Result()
		if refusal, refused := errors.AsType[goredis.Error](err); refused && !passing(refusal) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		p := info["Persistence"]
		if p["aof_rewrite_in_progress"] != "1" && p["aof_rewrite_scheduled"] != "1" {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rewritePoll):
		}
	}
}
