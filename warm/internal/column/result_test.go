package column

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Parts of what is stored that more than one case has.
const (
	keyBytes    = "0461636d65" + "046d696e64" + "016b" // acme, mind, k
	atBytes     = "82a19fdbb5a7f006"
	hourBefore  = "829182f29aa7f006"
	hourAfter   = "82b1bcc4d0a7f006"
	secondAfter = "82aa99dcb5a7f006"
	digestBytes = "01" + "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	headBytes   = "01" + "03" + keyBytes + "0e" + "03" + hourBefore + atBytes + hourAfter + "80aaea55" + secondAfter + "03616461" + "80808001" + digestBytes
	doneBytes   = "00" + "01" + headBytes + "d804" + "00" + "00"
	askedBytes  = "04" + "00" + "0200" + keyBytes + "02" + "00" + "00000000" + "00" + "00" + "00" + "00" + "00" + "025b5d" + "00"
	noHead      = "0000" + "000000" + "0000" + "00000000" + "00" + "00" + "00" + "00"
	whyBytes    = "08" + "00" + noHead + "00" + "00" + "03776879"
	bareBytes   = noHead + "00" + "00" + "00" // behind a status and created
)

// TestStoredBytesStay: stores hold these bytes, and every version of tierd
// writes the same ones and reads them.
func TestStoredBytesStay(t *testing.T) {
	at := time.Date(2031, 5, 6, 7, 8, 9, 1000, time.UTC)
	key := tiering.Key{Tenant: "acme", Namespace: "mind", ID: "k"}
	digest := tiering.DigestOf([]byte("x"))
	change := warm.FeedChange{
		Key: key, Op: tiering.OpPut, Version: 7, Revision: -2, Prev: 300, At: at, CreatedAt: at.Add(-time.Hour), ExpiresAt: at.Add(time.Hour),
		TTL: 90 * time.Second, User: "ada", Pinned: true, Query: true, Size: 1 << 20, Digest: digest,
	}
	done := warm.Result{Status: warm.Done, Created: true, Prev: 300, Head: warm.Head{
		Key: key, Op: tiering.OpPut, Version: 7, Revision: -2, CreatedAt: at.Add(-time.Hour), UpdatedAt: at, ExpiresAt: at.Add(time.Hour),
		TTL: 90 * time.Second, AccessedAt: at.Add(time.Second), User: "ada", Size: 1 << 20, Digest: digest, Pinned: true, InWarm: true,
	}}
	asked := warm.Result{Status: warm.Replayed, Head: warm.Head{Key: key, Op: tiering.OpDelete, Version: 1}, Answer: []byte("[]")}
	why := warm.Result{Status: warm.Refused, Err: errors.New("why")}
	gone := done
	gone.Head.Key.ID = "gone"
	bare, blanked := warm.Result{Status: warm.Done}, warm.Result{Status: warm.Done, Created: true}
	blank := func(r *warm.Result) bool { return r.Head.Key == gone.Head.Key || r.Status == warm.Refused }
	rows := [][]warm.Result{{done, asked}, {}, {why}}
	readResults := func(d *Decoder) any {
		next := func() (warm.FeedChange, bool) { return change, true }
		all := make([][]warm.Result, d.Count())
		for i := range all {
			all[i] = make([]warm.Result, d.Count())
			for j := range all[i] {
				all[i][j] = d.Result(next)
			}
		}
		return all
	}
	readChange := func(d *Decoder) any { return d.Change() }
	readResult := func(d *Decoder) any { return d.Result(nil) }
	for _, c := range []struct {
		name   string
		stored string
		write  func(*Encoder)
		read   func(*Decoder) any
		want   any
	}{
		{"a change", "01" + "05" + keyBytes + "0e" + "03" + "d804" + atBytes + hourBefore + hourAfter + "80aaea55" + "03616461" + "80808001" + digestBytes,
			func(e *Encoder) { e.Change(&change) }, readChange, change},
		{"no change", strings.Repeat("00", 15), func(e *Encoder) { e.Change(&warm.FeedChange{}) }, readChange, warm.FeedChange{}},
		{"a head", headBytes, func(e *Encoder) { e.Head(&done.Head) }, func(d *Decoder) any { return d.Head() }, done.Head},
		{"a result", doneBytes, func(e *Encoder) { e.Result(&done, false) }, readResult, done},
		{"an answer", askedBytes, func(e *Encoder) { e.Result(&asked, false) }, readResult, asked},
		{"a refusal", whyBytes, func(e *Encoder) { e.Result(&why, true) }, readResult, why},
		{"results of their own", "03" + "02" + doneBytes + askedBytes + "00" + "01" + whyBytes,
			func(e *Encoder) { e.Results(rows, false) }, readResults, rows},
		{"results beside the feed", "03" + "02" + "8082" + atBytes + secondAfter + "01" + askedBytes + "00" + "01" + whyBytes,
			func(e *Encoder) { e.Results(rows, true) }, readResults, rows},
		{"results that were blanked", "02" + "01" + "8082" + atBytes + secondAfter + "01" + "03" + "0000" + bareBytes + "0001" + bareBytes + "0800" + bareBytes,
			func(e *Encoder) { e.Blanked([][]warm.Result{{done}, {bare, gone, why}}, blank) }, readResults,
			[][]warm.Result{{done}, {bare, blanked, {Status: warm.Refused}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e Encoder
			c.write(&e)
			if got := hex.EncodeToString(e.B); got != c.stored {
				t.Errorf("wrote\n%s, stored is\n%s", got, c.stored)
			}
			b, err := hex.DecodeString(c.stored)
			if err != nil {
				t.Fatal(err)
			}
			d := Decoder{B: b}
			if got := c.read(&d); d.End() != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("read\n%+v, want\n%+v, %v", got, c.want, d.Err)
			}
			for cut := range b {
				d := Decoder{B: b[:cut]}
				if _ = c.read(&d); !errors.Is(d.End(), ErrCorrupt) {
					t.Errorf("cut to %d of %d bytes: %v", cut, len(b), d.Err)
				}
			}
		})
	}
}

// TestAResultWithoutItsChange: what leans on a feed entry is not read without
// the change that tells it.
func TestAResultWithoutItsChange(t *testing.T) {
	var e Encoder
	e.Result(&warm.Result{Status: warm.Done, Created: true}, true)
	for name, next := range map[string]func() (warm.FeedChange, bool){
		"no entry":           nil,
		"no change any more": func() (warm.FeedChange, bool) { return warm.FeedChange{}, false },
	} {
		d := Decoder{B: e.B}
		if r := d.Result(next); !errors.Is(d.End(), ErrCorrupt) || !reflect.DeepEqual(r, warm.Result{}) {
			t.Errorf("%s: %+v, %v", name, r, d.Err)
		}
	}
}
