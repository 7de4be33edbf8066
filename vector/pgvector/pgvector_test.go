package pgvector_test

import (
	"testing"

	"github.com/tierd/tierd/internal/memorytest"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/vector/pgvector"
	"github.com/tierd/tierd/vector/vectortest"
	"github.com/tierd/tierd/warm/postgres"
)

// open opens an index over a store in a schema of the test's own.
func open(t testing.TB, o pgvector.Options) (*memorytest.World, *postgres.Store, *pgvector.Index) {
	t.Helper()
	url, _ := servicestest.Schema(t)
	clock := memorytest.NewClock()
	s, err := postgres.Open(t.Context(), url, &postgres.Options{Clock: clock.Now, Committers: 4, Readers: 4})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := s.Pool(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	o.Clock = clock.Now
	x, err := pgvector.Open(t.Context(), pool, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return memorytest.New(clock, s, x), s, x
}

// TestContract runs the suite; "indexes soon" makes indexes of few vectors.
func TestContract(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     pgvector.Options
		areas []string
	}{{"as it is", pgvector.Options{}, nil}, {"indexes soon", pgvector.Options{IndexFrom: 500, ExactUpTo: 100}, []string{"many"}}} {
		t.Run(c.name, func(t *testing.T) {
			vectortest.Run(t, vectortest.Harness{Areas: c.areas, Checks: 15, Open: func(t *testing.T) vectortest.World {
				w, _, _ := open(t, c.o)
				return w
			}})
		})
	}
}
