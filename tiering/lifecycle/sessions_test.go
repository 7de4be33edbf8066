package lifecycle_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// lateExpired tells of keys as expired that were touched since, once.
type lateExpired struct {
	warm.Store
	keys []tiering.Key
}

func (s *lateExpired) Expired(ctx context.Context, limit int) ([]tiering.Key, error) {
	keys := s.keys
	s.keys = nil
	if keys != nil {
		return keys, nil
	}
	return s.Store.Expired(ctx, limit)
}

// moves counts the ends that are told.
type moves struct {
	checks
	ended int
}

func (m *moves) Moved(move tiering.Move, done bool, _ error) {
	if move == tiering.MoveExpire && done {
		m.ended++
	}
}

// A session that was touched after a sweep had found its life over keeps all it
// has, however many parts that is, and the sweep goes on.
func TestASweepThatIsLateLeavesALivingSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	log := tiering.Key{Tenant: siteTenant, Namespace: tiering.SessionEventsNamespace, ID: "s1"}
	s.namespace(siteTenant, log.Namespace, tiering.Policy{Kind: tiering.KindLog, Class: tiering.ClassSession})
	s.namespace(siteTenant, tiering.SessionPartsNamespace, tiering.Policy{})
	row := putOf(`{}`)
	row.Expiry = ttlOf(time.Hour)
	s.commit(log, row)
	const parts = 500
	b := &warm.Batch{ID: uuid.New()}
	for i := range parts {
		b.Changes = append(b.Changes, warm.Change{Key: tiering.Key{Tenant: siteTenant, Namespace: tiering.SessionPartsNamespace, ID: fmt.Sprintf("s1/steps/%03d", i)}, Rows: []warm.Row{putOf(`{}`)}})
	}
	_, err := s.warm.Commit(s.ctx, b)
	s.no(err)
	m := &moves{}
	e := lifecycle.New(lifecycle.Config{Warm: &lateExpired{s.warm, []tiering.Key{log}}, Archive: s.archive, Recorder: m})
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	s.no(e.Sweep(ctx))
	left, err := s.warm.List(s.ctx, warm.List{Tenant: siteTenant, Namespace: tiering.SessionPartsNamespace, Limit: 1000})
	s.no(err)
	cur, err := s.warm.Head(s.ctx, log)
	s.no(err)
	if len(left) != parts || !cur.Head.Live(cur.Now) || m.ended != 0 {
		t.Errorf("%d parts are left, the log lives: %t, and %d sessions ended", len(left), cur.Head.Live(cur.Now), m.ended)
	}
}
