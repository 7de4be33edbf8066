package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
)

// MeasureConfig says what Measure measures.
type MeasureConfig struct {
	// Tiers are those of the user, as tierd.Open takes them. Nothing in them is
	// read or changed but what Measure made.
	Tiers tierd.Config
	// For is how long each figure takes; 0: 2 s.
	For time.Duration
	// Writers are the numbers of writers that put; nil: 1, 16, 64.
	Writers []int
	// Progress is told what is measured next; nil: nobody is.
	Progress func(string)
}

// The shape of what Measure writes.
const (
	measureRounds = 2        // turns of each contestant
	hotKeyCount   = 1000     // documents that are read from hot
	coldBytes     = 16 << 10 // of a document in cold, so that none shares a block with another
	chatBytes     = 64 << 10 // of a conversation that is kept in one document
	entryBytes    = 370      // of a turn
)

// Measure measures the tiers of a user: what one would write by hand, the raw
// floors, and tierd, side by side in this process. It works in a schema, a
// prefix and a folder of its own, and removes them, also when ctx ends or
// something fails; then the figures are those until then.
func Measure(ctx context.Context, c MeasureConfig) (f *Figures, err error) {
	if c.For <= 0 {
		c.For = 2 * time.Second
	}
	if c.Writers == nil {
		c.Writers = []int{1, 16, 64}
	}
	for _, n := range c.Writers {
		if n < 1 {
			return nil, tiering.Invalidf("%d writers: use 1 or more", n)
		}
	}
	b := &bench{id: "bench_" + strings.ToLower(ulid.Make().String()), report: &Report{}, Config: Config{
		Hot: c.Tiers.Hot, Warm: c.Tiers.Warm, Cold: c.Tiers.Cold, Backup: c.Tiers.Backup, Rounds: measureRounds, Slice: c.For / measureRounds,
		Keys: enough(c.For, 5000, 200, 10_000), Progress: c.Progress,
	}.withDefaults()}
	f = &Figures{
		ID: b.id, Started: time.Now().UTC(), CPUs: runtime.NumCPU(), Go: runtime.Version(), For: c.For.String(), LoadBefore: load(),
		Tiers: []string{kind(c.Tiers.Hot, "memory"), kind(c.Tiers.Warm, "sqlite"), kind(c.Tiers.Cold, "dir"), kind(c.Tiers.Backup, "dir")},
	}
	defer func() {
		err = errors.Join(err, b.clean(ctx))
		f.Took, f.LoadAfter = time.Since(f.Started).Round(time.Second).String(), load()
	}()
	g, err := b.openGround(ctx, c.Tiers)
	if err != nil {
		return f, err
	}
	m := &measurement{
		ground: g, figures: f, writers: c.Writers, docs: documents(pool(1<<10), 1<<10), cold: enough(c.For, 128, 32, 256), memories: enough(c.For, 150, 50, 300),
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"puts", m.puts}, {"appends", m.appends}, {"hot gets", m.hotGets}, {"recall", m.recalls},
		{"restart", m.restarts}, {"warm gets", m.warmGets}, {"cold reads", m.coldReads},
	} {
		b.Progress(part.name)
		if err := part.run(ctx); err != nil {
			return f, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return f, nil
}

// enough is how many things a figure needs that takes d, at so many a second.
func enough(d time.Duration, perSecond float64, least, most int) int {
	return min(max(int(d.Seconds()*perSecond), least), most)
}

// measurement is one run of Measure.
type measurement struct {
	*ground
	figures *Figures
	writers []int
	docs    [][]byte
	// cold and memories are how many documents are read from cold, and how many
	// memories there are.
	cold, memories int
}

// way is how a contestant does a case. prepare, which may be nil, comes before
// each turn and is not measured.
type way struct {
	who     string
	prepare func(ctx context.Context, round int) error
	op      func(ctx context.Context, worker, i int) error
}

// turns lets ways take turns, forth and back.
func (m *measurement) turns(ctx context.Context, workers int, ways []way) (map[string][]sample, error) {
	samples := map[string][]sample{}
	for round := range m.Rounds {
		order := slices.Clone(ways)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, w := range order {
			if w.prepare != nil {
				if err := w.prepare(ctx, round); err != nil {
					return nil, err
				}
			}
			s, err := m.slice(ctx, w.who, workers, m.Slice, w.op)
			if err != nil {
				return nil, err
			}
			samples[w.who] = append(samples[w.who], s)
		}
	}
	return samples, nil
}

// puts are documents of 1 KB to hot and warm, with the archive at work behind
// tierd.
func (m *measurement) puts(ctx context.Context) error {
	field := []*contestant{{name: whoTierd, write: m.put}}
	if m.hand != nil {
		field = append(field, &contestant{name: whoHand, write: m.hand.write})
	}
	if a, err := m.articleBeside(ctx); err != nil {
		m.figures.Left = append(m.figures.Left, "article: "+err.Error())
	} else if a != nil {
		field = append(field, a)
	}
	if m.hand == nil {
		m.figures.Left = append(m.figures.Left, "by hand: it takes one Redis server and PostgreSQL, or neither")
	}
	if err := m.populate(ctx, field); err != nil {
		return err
	}
	for _, writers := range m.writers {
		samples, err := m.race(ctx, fmt.Sprintf("put, %d writers", writers), field, writers, m.docs)
		if err != nil {
			return err
		}
		m.figures.add("warm", "put of 1 KB, hot and warm", writers, samples)
	}
	return nil
}

func (m *measurement) put(ctx context.Context, id string, doc []byte) error {
	_, err := m.node.Put(ctx, namespace, id, doc, nil)
	return err
}

// articleBeside is a contestant that also puts each version to S3. It takes
// credentials from the environment alone, and so may fail where tierd does not.
func (m *measurement) articleBeside(ctx context.Context) (*contestant, error) {
	if _, ok := m.hand.(*straight); !ok || kind(m.user.Cold, "dir") != "s3" {
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	place, err := under(m.Cold, m.id+"/probe")
	if err != nil {
		return nil, err
	}
	probe, err := openObjects(place)
	if err != nil {
		return nil, err
	}
	m.later(probe.removeAll)
	if err := probe.put(ctx, "probe", []byte("1")); err != nil {
		return nil, err
	}
	return m.article(ctx)
}

// appends add a turn to a conversation of 64 KB, by hand by writing it whole.
func (m *measurement) appends(ctx context.Context) error {
	if _, err := m.node.SetNamespace(ctx, "turns", tiering.Policy{Kind: tiering.KindLog}, nil); err != nil {
		return err
	}
	entry, err := json.Marshal(newMessage(rand.New(rand.NewPCG(4, 5)), 1, entryBytes-130))
	if err != nil {
		return err
	}
	whole := documents(1, chatBytes)[0]
	ways := []way{{who: whoTierd, op: func(ctx context.Context, w, _ int) error {
		_, err := m.node.Append(ctx, "turns", keyName(w), []json.RawMessage{entry}, nil)
		return err
	}}}
	if m.hand != nil {
		ways = append(ways, way{who: whoHand, op: func(ctx context.Context, w, _ int) error {
			return m.hand.write(ctx, keyName(w), whole)
		}})
	}
	for _, writers := range []int{1, 16} {
		samples, err := m.turns(ctx, writers, ways)
		if err != nil {
			return err
		}
		m.figures.add("warm", "append of a turn to 64 KB of them", writers, samples)
	}
	if m.hand == nil {
		return nil
	}
	return together(16, func(w int) error { return m.hand.write(ctx, keyName(w), m.docs[w]) }) // small again
}

// hotGets read what hot has.
func (m *measurement) hotGets(ctx context.Context) error {
	keys := min(hotKeyCount, m.Keys)
	for i := range keys {
		if _, err := m.node.Get(ctx, namespace, keyName(i), nil); err != nil {
			return err
		}
		if m.hand == nil {
			continue
		}
		if err := m.hand.write(ctx, keyName(i), m.docs[i%len(m.docs)]); err != nil {
			return err
		}
	}
	served := servers{want: tiering.Hot}
	defer m.tell(&served)
	ways := []way{{who: whoTierd, op: func(ctx context.Context, _, _ int) error {
		d, err := m.node.Get(ctx, namespace, keyName(rand.IntN(keys)), nil)
		return served.by(d, err)
	}}}
	if m.hand != nil {
		ways = append(ways, way{who: whoHand, op: func(ctx context.Context, _, _ int) error {
			return m.hand.get(ctx, keyName(rand.IntN(keys)))
		}})
	}
	for _, readers := range []int{1, 64} {
		samples, err := m.turns(ctx, readers, ways)
		if err != nil {
			return err
		}
		m.figures.add("hot", "get of 1 KB from hot", readers, samples)
	}
	return nil
}

// recalls search memories by meaning and by words.
func (m *measurement) recalls(ctx context.Context) error {
	if e := kind(m.user.Embed, "static"); e != "static" && e != "none" {
		m.figures.Left = append(m.figures.Left, "recall: the server of embeddings would be paid, or measured, for it")
		return nil
	}
	if _, err := m.node.SetNamespace(ctx, "people", tiering.Policy{Kind: tiering.KindMemory}, nil); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(6, 7))
	texts := make([]string, m.memories)
	batch := make([]tiering.NewMemory, m.memories)
	for i := range texts {
		texts[i] = newMessage(r, i, 80).Content
		batch[i].Text = texts[i]
	}
	for part := range slices.Chunk(batch, 100) {
		if _, errs, err := m.node.Remember(ctx, "people", part, &tiering.RememberOptions{Wait: true}); errors.Join(append(errs, err)...) != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	for _, callers := range []int{1, 16} {
		samples, err := m.turns(ctx, callers, []way{{who: whoTierd, op: func(ctx context.Context, _, _ int) error {
			_, err := m.node.Recall(ctx, &tiering.Recall{Namespaces: []string{"people"}, Query: texts[rand.IntN(len(texts))]})
			return err
		}}})
		if err != nil {
			return err
		}
		m.figures.add("all", fmt.Sprintf("recall of 10 of %d memories", m.memories), callers, samples)
	}
	return nil
}

// restarts stop the node and start it again.
func (m *measurement) restarts(ctx context.Context) error {
	var took []time.Duration
	for range 3 {
		d, err := m.restart(ctx)
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	m.figures.add("all", "restart to ready", 1, map[string][]sample{whoTierd: {{n: len(took), p50: took[1], p99: took[2]}}})
	return nil
}
