package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/cold/s3"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// forgetting is a store in which memories are recalled for a session, and erased.
type forgetting struct {
	*testing.T
	nodes  []*tierd.Node
	places func(*canaries) []string // where the tiers hold a canary
	sample func()                   // has warm note what it plans by, as it does by itself; nil: it does not
}

const birds = "birds"

// TestNothingNamesAnErasedMemory erases memories, by id and by prefix, that timelines
// tell of: recalled before, meanwhile, and archived by then. What timelines keep of them
// names them nowhere, in any version in any tier, and still names the others.
func TestNothingNamesAnErasedMemory(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		c := tierd.Config{Data: t.TempDir()}
		f := &forgetting{T: t, places: func(c2 *canaries) []string { return filesOf(t, c.Data, c2) }}
		f.open(c)
		f.run(func() tierd.Config {
			again := tierd.Config{Data: t.TempDir()} // the backup is all that is left
			f.no(os.CopyFS(filepath.Join(again.Data, "backup"), os.DirFS(filepath.Join(c.Data, "backup"))))
			c = again
			return c
		})
	})
	t.Run("two nodes on servers", func(t *testing.T) {
		schema := func() (url, name string) { return servicestest.Schema(t) }
		url, name := schema()
		s := &servers{t: t, hot: servicestest.Variable(t, "TIERD_HOT"), warm: url}
		s.cold, s.backup = servicestest.Bucket(t, servicestest.Variable(t, "TIERD_COLD"), true), servicestest.Bucket(t, servicestest.Variable(t, "TIERD_BACKUP"), false)
		c := tierd.Config{Data: t.TempDir(), Hot: s.hot, Warm: s.warm, Cold: s.cold, Backup: s.backup + "&client=minio"}
		f := &forgetting{T: t, places: func(c2 *canaries) []string { return s.placesOf(c2, name) }, sample: func() {
			for _, table := range s.tables(name) {
				s.sql(fmt.Sprintf(`ANALYZE %s.%q`, name, table))
			}
		}}
		f.open(c, c)
		f.run(func() tierd.Config {
			s.warm, name = schema()
			c.Warm = s.warm
			return c
		})
	})
}

func (f *forgetting) no(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// open opens the nodes of configurations.
func (f *forgetting) open(of ...tierd.Config) {
	f.Helper()
	f.nodes = nil
	for _, c := range of {
		n, err := tierd.Open(f.Context(), c)
		f.no(err)
		f.nodes = append(f.nodes, n)
	}
}

func (f *forgetting) close() {
	f.Helper()
	for _, n := range f.nodes {
		f.no(n.Close(context.WithoutCancel(f.Context())))
	}
}

// run is the story. lost takes everything but the backup away and says where the
// store is to be rebuilt.
func (f *forgetting) run(lost func() tierd.Config) {
	first, last := f.nodes[0], f.nodes[len(f.nodes)-1]
	word := strings.ReplaceAll(uuid.NewString(), "-", "")
	byID, byPrefix, stays := "byid"+word, "byprefix"+word+"/1", "stays"
	c := newCanaries(f.T, []string{"text" + word}, []string{"byid" + word, "byprefix" + word})
	for _, id := range []string{byID, byPrefix, stays} {
		text := "Somebody's parrot eats millet, text" + word
		if id == stays {
			text = "Another's parrot eats millet too"
		}
		_, errs, err := first.Remember(f.Context(), birds, []tiering.NewMemory{{ID: id, MemoryBody: tiering.MemoryBody{Text: text}}}, nil)
		f.no(err)
		f.no(errs[0])
	}
	_, err := first.Sessions().Create(f.Context(), &tiering.NewSession{ID: "s", User: "ada"})
	f.no(err)

	for range 2 { // two versions of what the session keeps, in both buckets
		f.recall(first, 3)
		f.told(first)
		f.no(first.Archive(f.Context()))
	}
	if f.sample != nil {
		f.sample()
	}
	f.recall(first, 3) // this one is not written yet
	for _, where := range []string{"warm", "primary", "backup"} {
		if !slices.ContainsFunc(f.places(c), func(place string) bool { return strings.HasPrefix(place, where) }) {
			f.Fatalf("before the erase %s holds no canary: the search proves nothing", where)
		}
	}
	f.erase(last, tiering.EraseRequest{Namespace: birds, ID: byID}, first)
	for _, n := range f.nodes {
		for i, note := range f.told(n) {
			if got := note.names(); slices.Contains(got, byID) || !slices.Contains(got, byPrefix) || !slices.Contains(got, stays) || i < 3 && note.gone() != 1 {
				f.Errorf("recall %d tells of %v, and of %d that are gone", i, got, note.gone())
			}
		}
	}
	f.erase(last, tiering.EraseRequest{Namespace: birds, Prefix: byPrefix[:len(byPrefix)-1]}, first)
	f.recall(first, 1)
	notes := f.told(last)
	for i, note := range notes {
		if got := note.names(); len(got) != 1 || got[0] != stays || i < 3 && note.gone() != 2 {
			f.Errorf("in the end recall %d tells of %v, and of %d that are gone", i, got, note.gone())
		}
	}
	f.no(first.Archive(f.Context()))
	f.nowhere(c, "once all is archived")
	f.close()
	f.nowhere(c, "after the nodes")

	again := lost()
	_, err = tierd.Rebuild(f.Context(), again, tierd.RebuildOptions{From: "backup"})
	f.no(err)
	f.open(again)
	for i, note := range f.told(f.nodes[0]) {
		if got := note.names(); len(got) > 0 {
			f.Errorf("after a rebuild recall %d tells of %v", i, got)
		}
	}
	f.close()
	f.nowhere(c, "after a rebuild")
}

// recall reads a context that recalls so many memories.
func (f *forgetting) recall(n *tierd.Node, want int) {
	f.Helper()
	got, err := n.Sessions().Context(f.Context(), "s", &tiering.ContextOptions{Budget: 4000, Recall: "what does a parrot eat, millet?"})
	f.no(err)
	if len(got.Recalled.Memories) != want {
		f.Fatalf("%d memories were recalled, want %d: %+v", len(got.Recalled.Memories), want, got.Recalled)
	}
}

type recallNote tiering.SessionRecall

func (n recallNote) names() (ids []string) {
	for _, m := range n.Memories {
		if m.ID != "" {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func (n recallNote) gone() int { return len(n.Memories) - len(n.names()) }

// told is what the session's timeline tells of recalls.
func (f *forgetting) told(n *tierd.Node) (notes []recallNote) {
	f.Helper()
	line, err := n.Sessions().Timeline(f.Context(), "s", nil)
	f.no(err)
	for _, i := range line.Items {
		if i.What == "recalled" {
			var note recallNote
			f.no(json.Unmarshal(i.Data, &note))
			notes = append(notes, note)
		}
	}
	return notes
}

// erase erases through one node, while contexts of another recall.
func (f *forgetting) erase(n *tierd.Node, r tiering.EraseRequest, busy *tierd.Node) {
	f.Helper()
	no := false
	r.DryRun = &no
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(f.Context(), 3*time.Minute)
	defer cancel()
	go func() {
		receipt, err := n.Erase(ctx, r)
		for err == nil && receipt.State != "done" && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
			receipt, err = n.Erasure(ctx, receipt.ID)
		}
		done <- err
	}()
	for count := 0; ; {
		select {
		case err := <-done:
			f.no(err)
			f.no(ctx.Err())
			return
		case <-time.After(50 * time.Millisecond):
			if count++; count < 15 { // forty are kept
				_, err := busy.Sessions().Context(ctx, "s", &tiering.ContextOptions{Budget: 4000, Recall: "what does a parrot eat, millet?"})
				f.no(err)
			}
		}
	}
}

// nowhere fails the test for a place that holds a canary.
func (f *forgetting) nowhere(c *canaries, when string) {
	f.Helper()
	for _, place := range f.places(c) {
		f.Errorf("%s: %s", when, place)
	}
}

// filesOf looks into the files of an embedded node, segments unpacked.
func filesOf(t *testing.T, data string, c *canaries) (places []string) {
	t.Helper()
	err := filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && c.in(b) != "" {
			places = append(places, strings.TrimPrefix(path, data+"/")+" holds "+c.in(b))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"primary": "cold", "backup": "backup"} {
		if _, err := os.Stat(filepath.Join(data, folder)); err != nil {
			continue
		}
		b, err := dir.Open(filepath.Join(data, folder), nil)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, recordsWith(t, name, b, c)...)
		b.Close()
	}
	return places
}

// recordsWith looks into the records of a bucket's segments.
func recordsWith(t *testing.T, name string, b cold.Bucket, c *canaries) (places []string) {
	t.Helper()
	for o, err := range b.List(context.WithoutCancel(t.Context()), cold.SegmentPrefix) {
		if err != nil {
			t.Fatal(err)
		}
		data, err := b.Read(context.WithoutCancel(t.Context()), o.Name, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		s, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			continue // the marker of a name that is occupied
		}
		for r, err := range s.Records() {
			if err != nil {
				t.Fatal(err)
			}
			if what := c.in(append([]byte(r.Key.String()+" "+r.User+" "), r.Body...)); what != "" {
				places = append(places, fmt.Sprintf("%s: %s version %d holds %s", name, r.Key, r.Version, what))
			}
		}
	}
	return places
}

// placesOf looks into shared servers: the entries of the store's hot epochs, every
// table of its schema, every version of every object, and records.
func (s *servers) placesOf(c *canaries, schema string) (places []string) {
	s.t.Helper()
	add := func(where, what string) { places = append(places, "warm: "+where+" holds "+what) }
	s.searchDatabase(c, schema, add)
	add = func(where, what string) { places = append(places, "cold: "+where+" holds "+what) }
	for name, bucket := range map[string]string{"primary": s.cold, "backup": s.backup} {
		s.searchBucket(context.Background(), c, bucket, add)
		b, err := s3.Open(s.t.Context(), bucket, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		places = append(places, recordsWith(s.t, name, b, c)...)
		b.Close()
	}
	return append(places, s.hotHolds(c)...)
}

// hotHolds looks at the keys of the store in a Redis that others use too. The name of
// an erased one may stay for as long as a tombstone lives.
func (s *servers) hotHolds(c *canaries) (places []string) {
	s.t.Helper()
	ctx := context.Background()
	var epoch string
	s.onWarm(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT word FROM meta WHERE name = 'epoch'`).Scan(&epoch)
	})
	o, err := goredis.ParseURL(s.hot)
	if err != nil {
		s.t.Fatal(err)
	}
	redis := goredis.NewClient(o)
	defer redis.Close()
	keys := redis.Scan(ctx, 0, "tierd:"+epoch+"*", 1000).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		var value any
		if kind := redis.Type(ctx, key).Val(); kind == "hash" {
			value = redis.HGetAll(ctx, key).Val()
		} else {
			value = redis.Get(ctx, key).Val()
		}
		if what := c.in(fmt.Append(nil, value)); what != "" {
			places = append(places, fmt.Sprintf("hot: %s holds %s", key, what))
		}
		if left := redis.PTTL(ctx, key).Val(); c.in([]byte(key)) != "" && (left == -1 || left > hot.TombstoneTTL) {
			places = append(places, fmt.Sprintf("hot: %s for %v", key, left))
		}
	}
	if err := keys.Err(); err != nil {
		s.t.Fatal(err)
	}
	return places
}
