package postgres

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// A daemon that runs on while its schema is dropped and made anew writes
// nothing into the new one: not under the numbers that it knows, nor a position
// of its feed, nor a segment of its life.
func TestADaemonOfAnotherLifeWritesNothing(t *testing.T) {
	ctx := t.Context()
	place := testURL(t)
	ended := map[string]func(*Store) error{
		"a put": func(s *Store) error {
			_, err := s.Commit(ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{lifePut("k")}})
			return err
		},
		"a delete": func(s *Store) error {
			_, err := s.Commit(ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: lifePut("k").Key, Rows: []warm.Row{{Op: tiering.OpDelete}}}}})
			return err
		},
		"a reader's position": func(s *Store) error { return s.SetPosition(ctx, "archive", 7) },
		"a segment": func(s *Store) error {
			return s.StartSegment(ctx, tiering.SegmentInfo{Name: "seg/x.tseg", Tenant: "default", State: tiering.SegmentStarted, Started: time.Now()})
		},
		"a step of the sequencer": func(s *Store) error { _, err := s.sequence(ctx); return err },
	}
	stores := map[string]*Store{}
	for name := range ended {
		s := open(t, place, nil)
		if _, err := s.EnsureNamespace(ctx, warm.Namespace{Tenant: "default", Name: "docs", Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{lifePut(name)}}); err != nil {
			t.Fatal(err)
		}
		stores[name] = s
	}

	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	schema := u.Query().Get("search_path")
	err = onConn(ctx, place, func(c *pgx.Conn) error {
		for {
			_, err := c.Exec(ctx, `DROP SCHEMA `+schema+` CASCADE; CREATE SCHEMA `+schema)
			// The daemons' sequencers lock its tables in an order of their own.
			if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "40P01" {
				return err
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	next := open(t, place, nil)
	if _, err := next.EnsureNamespace(ctx, warm.Namespace{Tenant: "default", Name: "other", Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
		t.Fatal(err)
	}

	for name, act := range ended {
		s := stores[name]
		if err := act(s); tiering.CodeOf(err) != tiering.CodeUnavailable {
			t.Errorf("%s in another life: %v", name, err)
		}
		if _, err := s.Load(ctx, lifePut("k").Key); tiering.CodeOf(err) != tiering.CodeUnavailable {
			t.Errorf("a read behind %s: %v", name, err)
		}
	}
	st, err := next.Stats(ctx)
	if err != nil || st.Heads+st.Versions+st.Segments+st.Feed > 0 {
		t.Errorf("the new life holds %+v, %v", st, err)
	}
	if pos, err := next.Position(ctx, "archive"); err != nil || pos != 0 {
		t.Errorf("its archive begins at %d, %v", pos, err)
	}
}

// A restore gives the schema another life while the store's own sequencer asks under
// the one before: that does not end the store.
func TestARestoreDoesNotEndItsStore(t *testing.T) {
	ctx := t.Context()
	s := open(t, testURL(t), nil)
	before := s.life()
	if err := s.BeginRestore(ctx, "01JRESTORED0000000000000000", 5); err != nil {
		t.Fatal(err)
	}
	err := s.read(ctx, func(q querier) error { _, err := q.Exec(ctx, askLife, before); return err })
	if !errors.Is(err, ErrAnotherLife) {
		t.Errorf("asked under the life before: %v", err)
	}
	if err := s.EndRestore(ctx); err != nil {
		t.Errorf("behind it: %v", err)
	}
}

func lifePut(id string) warm.Change {
	body := []byte(`{"n":1}`)
	return warm.Change{Key: tiering.Key{Tenant: "default", Namespace: "docs", ID: id},
		Rows: []warm.Row{{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body), Query: true}}}
}
