package cold_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
)

// bad is one call of OnBad.
type bad struct {
	copy tiering.Copy
	code tiering.Code
}

// pair is an archive over two buckets in memory that break on demand, with one
// segment in both.
type pair struct {
	*cold.Archive
	memory [2]*coldtest.Memory
	fault  [2]*coldtest.FaultBucket
	name   string
	data   []byte
	loc    map[string]tiering.Location // by id

	mu  sync.Mutex
	bad []bad
}

var pairRecords = []cold.Record{
	record("a", 1, `{"n":1}`), record("a", 2, `{"n":2}`), bare(tiering.OpTouch, "a", 2, 1), record("a", 7, `{"n":7}`), bare(tiering.OpDelete, "a", 8, 0),
	record("b", 1, `{"b":1}`), bare(tiering.OpTouch, "touched", 3, 1),
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{loc: map[string]tiering.Location{}}
	for i := range p.memory {
		p.memory[i] = &coldtest.Memory{}
		p.fault[i] = coldtest.NewFaultBucket(p.memory[i])
	}
	p.Archive = cold.NewArchive(p.fault[0], p.fault[1], &cold.ArchiveOptions{OnBad: func(name string, c tiering.Copy, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.bad = append(p.bad, bad{c, tiering.CodeOf(err)})
		if name != p.name {
			t.Errorf("OnBad names %q, want %q", name, p.name)
		}
	}})
	e, err := cold.Encode("acme", []tiering.Range{{From: 1, To: 200}}, pairRecords, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.name, p.data = p.Name(time.Now(), 3), e.Data
	for _, l := range e.LocationsFor(p.name) {
		p.loc[l.Key.ID] = l
	}
	if errs := p.WriteBoth(t.Context(), p.name, e.Data); errs != [2]error{} {
		t.Fatal(errs)
	}
	return p
}

var errDown = errors.New("connection refused")

// The states that a copy can be in.
type state string

const (
	good    state = "good"
	down    state = "down"    // cannot be reached
	missing state = "missing" // the object is gone
	flipped state = "flipped" // one bit is wrong
	cut     state = "cut"     // the object ends early
	lying   state = "lying"   // the driver returns less than was asked for
	other   state = "other"   // another tenant's segment lies under the name
	dropped state = "dropped" // the reply ends early, the object is whole
)

func (p *pair) put(t *testing.T, c tiering.Copy, s state) {
	t.Helper()
	switch s {
	case good:
	case down:
		p.fault[c].Inject(coldtest.Fault{Before: errDown})
	case missing:
		if err := p.memory[c].Delete(t.Context(), p.name); err != nil {
			t.Fatal(err)
		}
	case flipped:
		p.fault[c].Inject(coldtest.Fault{Call: coldtest.Read, Flip: true, FlipAt: 100})
	case cut:
		p.memory[c].Replace(p.name, p.data[:40])
	case lying:
		p.fault[c].Inject(coldtest.Fault{Call: coldtest.Read, Truncate: 3})
	case other:
		foreign := pairRecords[0]
		foreign.Key.Tenant = "umbrella"
		e, err := cold.Encode("umbrella", nil, []cold.Record{foreign}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.memory[c].Replace(p.name, append(e.Data, p.data...))
	case dropped:
		p.fault[c].Inject(coldtest.Fault{Call: coldtest.Read, After: fmt.Errorf("body: %w", io.ErrUnexpectedEOF)})
	}
}

// TestReadFromEitherCopy: one good copy is enough whatever befell the other,
// the bad one is reported, and only when none can serve is there an error:
// unavailable while there is hope, corrupt when there is none, and never
// not_found.
func TestReadFromEitherCopy(t *testing.T) {
	const noBad = tiering.Code("")
	broken := map[state]tiering.Code{
		good: noBad, down: tiering.CodeUnavailable, missing: tiering.CodeCorrupt, flipped: tiering.CodeCorrupt, cut: tiering.CodeCorrupt,
		lying: tiering.CodeCorrupt, other: tiering.CodeCorrupt, dropped: tiering.CodeUnavailable,
	}
	for primary, primaryCode := range broken {
		for backup, backupCode := range broken {
			t.Run(fmt.Sprintf("primary %s, backup %s", primary, backup), func(t *testing.T) {
				p := newPair(t)
				p.put(t, tiering.Primary, primary)
				p.put(t, tiering.Backup, backup)
				r, c, err := p.Read(t.Context(), p.loc["a"], 2)

				var wantBad []bad
				want := noBad
				if primaryCode != noBad {
					wantBad = append(wantBad, bad{tiering.Primary, primaryCode})
					if backupCode != noBad {
						wantBad = append(wantBad, bad{tiering.Backup, backupCode})
						want = tiering.CodeCorrupt
						if primaryCode == tiering.CodeUnavailable || backupCode == tiering.CodeUnavailable {
							want = tiering.CodeUnavailable
						}
					}
				}
				if tiering.CodeOf(err) != want {
					t.Fatalf("read: %v, want code %q", err, want)
				}
				if fmt.Sprint(p.bad) != fmt.Sprint(wantBad) {
					t.Errorf("reported %v, want %v", p.bad, wantBad)
				}
				if err != nil {
					return
				}
				equalRecords(t, []cold.Record{r}, pairRecords[1:2])
				if (primaryCode == noBad) != (c == tiering.Primary) {
					t.Errorf("served by %s", c)
				}
			})
		}
	}
}

// TestReadCostsOneRead: one ranged read of one block, and nothing else.
func TestReadCostsOneRead(t *testing.T) {
	p := newPair(t)
	before := p.fault[0].Calls("")
	if _, _, err := p.Read(t.Context(), p.loc["a"], 7); err != nil {
		t.Fatal(err)
	}
	if n := p.fault[0].Calls("") - before; n != 1 {
		t.Errorf("%d calls to the primary, want 1", n)
	}
	if n := p.fault[1].Calls(coldtest.Read); n != 1 { // the read-back of the write
		t.Errorf("%d reads of the backup, want none but the read-back", n)
	}
}

// TestReadWhatIsNotThere: a gap is an answer, a broken promise of the catalog
// is a fault, and a version outside the location is a mistake of the caller.
func TestReadWhatIsNotThere(t *testing.T) {
	p := newPair(t)
	loc := p.loc["a"]
	wide, moved, foreign := loc, loc, loc
	wide.MaxVersion = 9
	moved.Blocks = []tiering.BlockRef{{FirstVersion: 5, Offset: loc.Blocks[0].Offset, Length: loc.Blocks[0].Length}}
	moved.MinVersion = 5
	foreign.Key.Tenant = "umbrella"
	for _, c := range []struct {
		name    string
		loc     tiering.Location
		version int64
		code    tiering.Code
	}{
		{"the first", loc, 1, ""},
		{"a delete", loc, 8, ""},
		{"a gap between versions", loc, 5, tiering.CodeNotFound},
		{"below the location", loc, 0, tiering.CodeInvalid},
		{"above the location", loc, 9, tiering.CodeInvalid},
		{"the catalog claims a version too many", wide, 9, tiering.CodeCorrupt},
		{"the catalog claims another first version", moved, 6, tiering.CodeCorrupt},
		{"the block is of another tenant", foreign, 2, tiering.CodeCorrupt},
		{"a key that was only touched", p.loc["touched"], 3, tiering.CodeInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := p.Read(t.Context(), c.loc, c.version); tiering.CodeOf(err) != c.code {
				t.Errorf("%v, want code %q", err, c.code)
			}
		})
	}
}

// TestReadTurnsToTheOtherCopy: a bucket that hangs costs half of Patience once;
// then it is asked last until Cooldown has passed.
func TestReadTurnsToTheOtherCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.fault[0].Inject(coldtest.Fault{Call: coldtest.Read, Delay: time.Hour})
		took := func() (tiering.Copy, time.Duration) {
			t.Helper()
			start := time.Now()
			_, c, err := p.Read(t.Context(), p.loc["a"], 2)
			if err != nil {
				t.Fatal(err)
			}
			return c, time.Since(start)
		}
		if c, d := took(); c != tiering.Backup || d != 1500*time.Millisecond {
			t.Errorf("the first read came from %s after %s", c, d)
		}
		if c, d := took(); c != tiering.Backup || d != 0 {
			t.Errorf("the second came from %s after %s", c, d)
		}
		p.fault[0].Clear()
		time.Sleep(6 * time.Second)
		if c, d := took(); c != tiering.Primary || d != 0 {
			t.Errorf("after the cooldown it came from %s after %s", c, d)
		}
	})
}

// TestReadEndsWithItsContext: a caller who goes away says nothing of a copy.
func TestReadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.fault[0].Inject(coldtest.Fault{Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := p.Read(ctx, p.loc["a"], 2)
		if !errors.Is(err, tiering.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want unavailable for the deadline", err)
		}
		if len(p.bad) > 0 {
			t.Errorf("reported %v", p.bad)
		}
	})
}

func TestVersions(t *testing.T) {
	for _, primary := range []state{good, down, missing, cut, lying, other} {
		t.Run("primary "+string(primary), func(t *testing.T) {
			p := newPair(t)
			p.put(t, tiering.Primary, primary)
			got, _, err := p.Versions(t.Context(), p.loc["a"])
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 5 {
				t.Fatalf("%d entries, want 5", len(got))
			}
			for i, e := range got {
				r := pairRecords[i]
				if e.Version != r.Version || e.Revision != r.Revision || e.Op != r.Op || e.Digest != r.Digest || e.At != r.At || e.Size != int64(len(r.Body)) {
					t.Errorf("entry %d is %+v", i, e)
				}
			}
			if (primary == good) != (len(p.bad) == 0) {
				t.Errorf("reported %v", p.bad)
			}
		})
	}
	t.Run("of a key that is not there", func(t *testing.T) {
		p := newPair(t)
		loc := p.loc["a"]
		loc.Key.ID = "none"
		if _, _, err := p.Versions(t.Context(), loc); !errors.Is(err, tiering.ErrCorrupt) {
			t.Errorf("%v, want corrupt", err)
		}
	})
	t.Run("of a key that was only touched", func(t *testing.T) {
		p := newPair(t)
		if got, _, err := p.Versions(t.Context(), p.loc["touched"]); err != nil || len(got) != 1 {
			t.Errorf("%v: %v", got, err)
		}
	})
}

func TestWriteBoth(t *testing.T) {
	p := newPair(t)
	p.fault[1].Inject(coldtest.Fault{Call: coldtest.Create, Before: errDown})
	name := p.Name(time.Now(), 4)
	errs := p.WriteBoth(t.Context(), name, p.data)
	if errs[0] != nil || !errors.Is(errs[1], tiering.ErrUnavailable) || !errors.Is(errs[1], errDown) {
		t.Errorf("errors %v, want the backup's alone", errs)
	}
	full := &tiering.Error{Code: tiering.CodeOutOfSpace}
	p.fault[1].Clear()
	p.fault[1].Inject(coldtest.Fault{Call: coldtest.Create, Before: full})
	if errs = p.WriteBoth(t.Context(), name, p.data); errs[0] != nil || !errors.Is(errs[1], tiering.ErrOutOfSpace) {
		t.Errorf("errors %v, want out_of_space for the backup", errs)
	}
}

// TestLateTwin: two uploads of one name race, as when a writer that was taken
// for dead wakes up. Equal bytes: both succeed. Other bytes: the loser learns.
func TestLateTwin(t *testing.T) {
	p := newPair(t)
	name := p.Name(time.Now(), 5)
	reached, gate := make(chan struct{}), make(chan struct{})
	p.fault[0].Inject(coldtest.Fault{Call: coldtest.Create, Name: name, Times: 1, Reached: reached, Gate: gate})
	late := make(chan error, 1)
	go func() { late <- p.Write(t.Context(), tiering.Primary, name, []byte("late")) }()
	<-reached
	if err := p.Write(t.Context(), tiering.Primary, name, []byte("first")); err != nil {
		t.Fatal(err)
	}
	close(gate)
	if err := <-late; !errors.Is(err, tiering.ErrCorrupt) {
		t.Errorf("the late writer: %v, want corrupt", err)
	}
	if b, err := p.memory[0].Read(t.Context(), name, 0, -1); err != nil || string(b) != "first" {
		t.Errorf("the bucket holds %q: %v", b, err)
	}
}

func TestName(t *testing.T) {
	p := newPair(t)
	form := regexp.MustCompile(`^seg/[0-9a-z]{26}-[0-9]+\.tseg$`)
	seen := map[string]bool{}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 10_000 {
		n := p.Name(now, 17)
		if !form.MatchString(n) || seen[n] || cold.CheckName(n) != nil {
			t.Fatalf("name %q is malformed or a repeat", n)
		}
		seen[n] = true
	}
	if a, b := p.Name(now, 9), p.Name(now.Add(time.Millisecond), 1); a >= b {
		t.Errorf("%q does not sort before %q, made later", a, b)
	}
	for _, wild := range []time.Time{{}, time.Unix(1<<50, 0), time.Unix(-1<<50, 0)} {
		if n := p.Name(wild, 1); !form.MatchString(n) {
			t.Errorf("at %s the name is %q", wild, n)
		}
	}
}

func TestOpenObject(t *testing.T) {
	for s, code := range map[state]tiering.Code{
		good: "", down: tiering.CodeUnavailable, missing: tiering.CodeNotFound, flipped: tiering.CodeCorrupt, cut: tiering.CodeCorrupt, lying: tiering.CodeCorrupt,
	} {
		t.Run(string(s), func(t *testing.T) {
			p := newPair(t)
			p.put(t, tiering.Backup, s)
			seg, err := p.OpenObject(t.Context(), tiering.Backup, p.name)
			if tiering.CodeOf(err) != code {
				t.Fatalf("%v, want code %q", err, code)
			}
			if err == nil {
				equalRecords(t, collect(t, seg), pairRecords)
			}
		})
	}
}

// TestCopy: only a sound copy is spread, and nothing that lies there is replaced.
func TestCopy(t *testing.T) {
	for _, c := range []struct {
		from, to state
		code     tiering.Code
		sound    bool // the copy, afterwards
	}{
		{good, missing, "", true},
		{good, good, "", true},
		{good, cut, tiering.CodeCorrupt, false},
		{good, other, tiering.CodeCorrupt, false},
		{cut, missing, tiering.CodeCorrupt, false},
		{flipped, missing, tiering.CodeCorrupt, false},
		{flipped, good, tiering.CodeCorrupt, true},
		{missing, good, tiering.CodeNotFound, true},
		{down, good, tiering.CodeUnavailable, true},
		{good, down, tiering.CodeUnavailable, true},
	} {
		t.Run(fmt.Sprintf("from %s to %s", c.from, c.to), func(t *testing.T) {
			p := newPair(t)
			p.put(t, tiering.Primary, c.from)
			p.put(t, tiering.Backup, c.to)
			if err := p.CopyObject(t.Context(), tiering.Primary, tiering.Backup, p.name); tiering.CodeOf(err) != c.code {
				t.Errorf("copy: %v, want code %q", err, c.code)
			}
			b, err := p.memory[1].Read(t.Context(), p.name, 0, -1)
			if sound := err == nil && bytes.Equal(b, p.data); sound != c.sound {
				t.Errorf("after the copy the backup is sound: %t, want %t", sound, c.sound)
			}
		})
	}
}

// TestPrefix: two archives share a bucket and see nothing of each other.
func TestPrefix(t *testing.T) {
	m := &coldtest.Memory{}
	one := cold.NewArchive(m, m, &cold.ArchiveOptions{Prefix: "one"})
	two := cold.NewArchive(m, m, &cold.ArchiveOptions{Prefix: "one/two/"})
	for i, a := range []*cold.Archive{one, two} {
		if err := a.Write(t.Context(), tiering.Primary, "seg/x", []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range []*cold.Archive{one, two} {
		b := a.Bucket(tiering.Backup)
		if got, err := b.Read(t.Context(), "seg/x", 0, -1); err != nil || string(got) != fmt.Sprint(i) {
			t.Errorf("archive %d reads %q: %v", i, got, err)
		}
		for info, err := range b.List(t.Context(), "seg/") {
			if err != nil || info.Name != "seg/x" {
				t.Errorf("archive %d lists %q: %v", i, info.Name, err)
			}
		}
		if _, err := b.Stat(t.Context(), "../seg/x"); err == nil {
			t.Error("a prefix can be left")
		}
	}
	if errs := one.Ping(t.Context()); errs != [2]error{} {
		t.Error(errs)
	}
}
