package sqlite

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// aTime draws a time as it is stored: whole microseconds, or none.
func aTime() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		return column.Time(rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(-1<<50, 1<<52)).Draw(t, "micros"))
	})
}

func aDigest() *rapid.Generator[tiering.Digest] {
	return rapid.Custom(func(t *rapid.T) tiering.Digest {
		if rapid.Bool().Draw(t, "zero") {
			return tiering.Digest{}
		}
		return tiering.DigestOf(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	})
}

func aKey() *rapid.Generator[tiering.Key] {
	return rapid.Custom(func(t *rapid.T) tiering.Key {
		return tiering.Key{Tenant: rapid.String().Draw(t, "tenant"), Namespace: rapid.String().Draw(t, "namespace"), ID: rapid.String().Draw(t, "id")}
	})
}

func aChange() *rapid.Generator[warm.FeedChange] {
	return rapid.Custom(func(t *rapid.T) warm.FeedChange {
		return warm.FeedChange{
			Key: aKey().Draw(t, "key"), Op: tiering.Op(rapid.IntRange(1, 6).Draw(t, "op")),
			Version: rapid.Int64().Draw(t, "version"), Revision: rapid.Int64().Draw(t, "revision"), Prev: rapid.Int64().Draw(t, "prev"),
			At: aTime().Draw(t, "at"), CreatedAt: aTime().Draw(t, "created"), ExpiresAt: aTime().Draw(t, "expires"),
			TTL: time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "ttl")) * time.Microsecond, User: rapid.String().Draw(t, "user"),
			Pinned: rapid.Bool().Draw(t, "pinned"), Query: rapid.Bool().Draw(t, "query"), Size: rapid.Int64().Draw(t, "size"),
			Digest: aDigest().Draw(t, "digest"),
		}
	})
}

func TestFeedEntriesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(aChange()).Draw(t, "changes")
		got, err := decodeChanges(encodeChanges(want))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// TestResultsComeBack stores results beside the feed entry that a Done result
// leans on, and on their own.
func TestResultsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var changes []warm.FeedChange
		all := make([][]warm.Result, rapid.IntRange(0, 4).Draw(t, "changes"))
		for i := range all {
			all[i] = make([]warm.Result, rapid.IntRange(0, 3).Draw(t, "rows"))
			for j := range all[i] {
				c := aChange().Draw(t, "change")
				r := warm.Result{
					Status: warm.Status(rapid.IntRange(0, int(warm.Refused)).Draw(t, "status")), Prev: c.Prev, Created: rapid.Bool().Draw(t, "created"),
					Head: warm.Head{Key: c.Key, Op: tiering.OpPut, Version: c.Version, Revision: c.Revision, CreatedAt: c.CreatedAt,
						UpdatedAt: aTime().Draw(t, "updated"), ExpiresAt: c.ExpiresAt, TTL: c.TTL, AccessedAt: aTime().Draw(t, "accessed"),
						User: c.User, Size: c.Size, Digest: c.Digest, Pinned: c.Pinned, InWarm: rapid.Bool().Draw(t, "in warm")},
				}
				switch r.Status {
				case warm.Done:
					changes = append(changes, c)
				case warm.Replayed:
					r.Answer = []byte("answer")
				case warm.Refused:
					r.Err = errors.New("why")
				}
				all[i][j] = r
			}
		}
		for _, inFeed := range []bool{true, false} {
			got, err := decodeResults(encodeResults(all, inFeed), changes)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", all) {
				t.Fatalf("in the feed %v: got\n%+v\nwant\n%+v", inFeed, got, all)
			}
		}
	})
}

// FuzzDecode feeds damaged bytes to the decoders: an error or a value, and no
// more memory than the bytes can stand for.
func FuzzDecode(f *testing.F) {
	change := warm.FeedChange{Key: tiering.Key{Tenant: "a", Namespace: "b", ID: "c"}, Op: tiering.OpPut, Version: 1, Digest: tiering.DigestOf(nil)}
	f.Add(encodeChanges([]warm.FeedChange{change}))
	f.Add(encodeResults([][]warm.Result{{{Head: warm.Head{Version: 1}}}}, false))
	f.Add(encodeResult(warm.Result{Status: warm.Conflict}))
	f.Add([]byte{codecForm, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if changes, err := decodeChanges(b); err == nil {
			if again, err := decodeChanges(encodeChanges(changes)); err != nil || len(again) != len(changes) {
				t.Fatalf("%+v does not come back: %+v, %v", changes, again, err)
			}
		} else if !errors.Is(err, tiering.ErrCorrupt) {
			t.Fatalf("error %v, want corrupt", err)
		}
		for _, changes := range [][]warm.FeedChange{nil, {change}} {
			if results, err := decodeResults(b, changes); err == nil {
				if _, err := decodeResults(encodeResults(results, false), nil); err != nil {
					t.Fatalf("%+v does not come back: %v", results, err)
				}
			}
		}
		if r, err := decodeResult(b); err == nil {
			if _, err := decodeResult(encodeResult(r)); err != nil {
				t.Fatalf("%+v does not come back: %v", r, err)
			}
		}
	})
}
