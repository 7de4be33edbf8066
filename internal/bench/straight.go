package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
)

// contestant writes documents. begin and end, which may be nil, enclose each of
// its slices.
type contestant struct {
	name  string
	write func(ctx context.Context, id string, doc []byte) error
	begin func()
	end   func(ctx context.Context) error
	// settle does what the writes left for later, on their time; nil: nothing.
	settle func(ctx context.Context) error
	note   func() string // what else there is to say; nil: nothing
}

// straight is what one writes by hand: no history, no condition, no version in
// the answer, and Redis first.
type straight struct {
	redis  *goredis.Client
	pool   *pgxpool.Pool
	prefix string
}

// straightPool is how many connections straight has to PostgreSQL: more made
// it slower.
const straightPool = 32

const upsert = `INSERT INTO st AS s (id, ver, doc, updated) VALUES ($1, 1, $2::jsonb, now())
	ON CONFLICT (id) DO UPDATE SET ver = s.ver + 1, doc = excluded.doc, updated = now()`

func (b *bench) openStraight(ctx context.Context, name string, settings map[string]string) (*straight, error) {
	place, err := b.schema(ctx, name, settings)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(place)
	if err != nil {
		return nil, errors.New("bench: the warm URL cannot be parsed")
	}
	config.MaxConns, config.MinConns = straightPool, straightPool
	s := &straight{prefix: b.id + ":" + name + ":"}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	b.later(func(context.Context) error { s.pool.Close(); return nil })
	if s.redis, err = b.redis(); err != nil {
		return nil, err
	}
	b.later(func(ctx context.Context) error {
		return errors.Join(removeKeys(ctx, s.redis, s.prefix, b.Keys), s.redis.Close())
	})
	_, err = s.pool.Exec(ctx, `CREATE TABLE st (id text PRIMARY KEY, ver bigint NOT NULL, doc jsonb NOT NULL, updated timestamptz NOT NULL)`)
	return s, err
}

func (s *straight) write(ctx context.Context, id string, doc []byte) error {
	if err := s.redis.Set(ctx, s.prefix+id, doc, time.Hour).Err(); err != nil {
		return err
	}
	_, err := s.pool.Exec(ctx, upsert, id, string(doc))
	return err
}

// get is a read that Redis serves.
func (s *straight) get(ctx context.Context, id string) error {
	return s.redis.Get(ctx, s.prefix+id).Err()
}

// row is a read of PostgreSQL alone.
func (s *straight) row(ctx context.Context, id string) (doc []byte, err error) {
	err = s.pool.QueryRow(ctx, `SELECT doc FROM st WHERE id = $1`, id).Scan(&doc)
	return doc, err
}

// miss is a read that Redis does not serve: the cache is filled behind it.
func (s *straight) miss(ctx context.Context, id string) error {
	if err := s.redis.Get(ctx, s.prefix+id).Err(); !errors.Is(err, goredis.Nil) {
		return errors.Join(err, ctx.Err())
	}
	doc, err := s.row(ctx, id)
	if err != nil {
		return err
	}
	return s.redis.Set(ctx, s.prefix+id, doc, time.Hour).Err()
}

// forget empties the cache of so many keys.
func (s *straight) forget(ctx context.Context, keys int) error {
	return removeKeys(ctx, s.redis, s.prefix, keys)
}

func (b *bench) straight(ctx context.Context, settings map[string]string) (*contestant, error) {
	s, err := b.openStraight(ctx, "straight", settings)
	if err != nil {
		return nil, err
	}
	return &contestant{name: "straight", write: s.write}, nil
}

// uploaders is how many PUTs of article run at once.
const uploaders = 32

// article is straight with a third tier: a goroutine a version puts it to S3,
// and nobody waits for it.
type article struct {
	*straight
	objects *objects
	slots   chan struct{}

	slice   context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	serial  atomic.Int64
	begun   atomic.Int64
	put     atomic.Int64
	failed  atomic.Int64
}

func (b *bench) article(ctx context.Context) (*contestant, error) {
	s, err := b.openStraight(ctx, "article", nil)
	if err != nil {
		return nil, err
	}
	a := &article{straight: s, slots: make(chan struct{}, uploaders)}
	place, err := under(b.Cold, b.id+"/article")
	if err != nil {
		return nil, err
	}
	if a.objects, err = openObjects(place); err != nil {
		return nil, err
	}
	b.later(a.objects.removeAll)
	a.begin()
	b.later(a.end)
	return &contestant{name: "article", write: a.write, begin: a.begin, end: a.end, note: func() string {
		return fmt.Sprintf("article put %s of %s versions in its windows", thousands(float64(a.put.Load())), thousands(float64(a.begun.Load())))
	}}, nil
}

// begin opens a window of uploads.
func (a *article) begin() {
	a.begun.Store(0)
	a.put.Store(0)
	a.slice, a.stop = context.WithCancel(context.Background())
}

// end closes it: what has not begun by then is the backlog, and left behind.
func (a *article) end(context.Context) error {
	a.stop()
	a.running.Wait()
	if n := a.failed.Load(); n > 0 {
		return fmt.Errorf("article: %d uploads failed", n)
	}
	return nil
}

func (a *article) write(ctx context.Context, id string, doc []byte) error {
	if err := a.straight.write(ctx, id, doc); err != nil {
		return err
	}
	window := a.slice
	a.begun.Add(1)
	a.running.Go(func() {
		select {
		case a.slots <- struct{}{}:
		case <-window.Done():
			return
		}
		defer func() { <-a.slots }()
		if window.Err() != nil {
			return
		}
		err := a.objects.put(context.WithoutCancel(window), fmt.Sprintf("%s/%d", id, a.serial.Add(1)), doc)
		if err != nil {
			a.failed.Add(1)
			return
		}
		if window.Err() == nil {
			a.put.Add(1)
		}
	})
	return nil
}
