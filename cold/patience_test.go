package cold_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
)

// TestReadFromBucketsThatHang: where neither answers a read is told so within
// Patience, at once and later.
func TestReadFromBucketsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.fault[0].Inject(coldtest.Fault{Delay: time.Hour})
		p.fault[1].Inject(coldtest.Fault{Delay: time.Hour})
		for _, c := range []struct {
			when  string
			after time.Duration
		}{{"at first", 0}, {"a moment later", time.Second}, {"when nobody asked for a while", time.Minute}} {
			time.Sleep(c.after)
			began := time.Now()
			if _, _, err := p.Read(t.Context(), p.loc["a"], 2); !errors.Is(err, tiering.ErrUnavailable) || time.Since(began) > 3*time.Second {
				t.Errorf("%s: %v after %v", c.when, err, time.Since(began))
			}
		}
	})
}

// TestReadWaitsForEachAnswer: a bucket that answers slowly is waited for anew
// with every request of a read that needs several.
func TestReadWaitsForEachAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.fault[0].Inject(coldtest.Fault{Delay: time.Second})
		began := time.Now()
		if _, c, err := p.Versions(t.Context(), p.loc["a"]); err != nil || c != tiering.Primary || time.Since(began) < 2*time.Second {
			t.Errorf("from %s: %v after %v", c, err, time.Since(began))
		}
	})
}

// TestWriteToABucketThatHangs: it costs the write its patience once, those
// after it a short look; the other copy is made all the same. Once the bucket
// answers again the next write succeeds.
func TestWriteToABucketThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.fault[1].Inject(coldtest.Fault{Delay: time.Hour})
		write := func() (errs [2]error, took time.Duration) {
			began := time.Now()
			errs = p.WriteBoth(t.Context(), p.Name(began, 1), p.data)
			return errs, time.Since(began)
		}
		for _, most := range []time.Duration{6 * time.Second, 1500 * time.Millisecond, 1500 * time.Millisecond} {
			if errs, took := write(); errs[0] != nil || !errors.Is(errs[1], tiering.ErrUnavailable) || took > most {
				t.Errorf("%v after %v, want unavailable for the backup within %v", errs, took, most)
			}
		}
		p.fault[1].Clear()
		if errs, took := write(); errs != [2]error{} || took != 0 {
			t.Errorf("once it answers: %v after %v", errs, took)
		}
	})
}

// TestWriteToASlowBucket: one that answers, and takes longer over an object than
// it was given, is given more and more time until it makes it.
func TestWriteToASlowBucket(t *testing.T) {
	for _, slow := range []coldtest.Call{coldtest.Create, coldtest.Read} {
		t.Run(string(slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				p.fault[0].Inject(coldtest.Fault{Call: slow, Delay: 20 * time.Second})
				tries := 1
				for ; p.Write(t.Context(), tiering.Primary, p.Name(time.Now(), 1), p.data) != nil; tries++ {
					if tries == 5 {
						t.Fatal("it never got the time that it needs")
					}
				}
				if tries < 3 {
					t.Errorf("it took %d tries: the write was not bounded", tries)
				}
				p.fault[0].Clear()
				if _, c, err := p.Read(t.Context(), p.loc["a"], 2); err != nil || c != tiering.Primary {
					t.Errorf("a bucket that is slow with writes is not read first: %s, %v", c, err)
				}
			})
		})
	}
}

// TestWritePatience: what is larger has longer.
func TestWritePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.fault[0].Inject(coldtest.Fault{Call: coldtest.Create, Delay: 9 * time.Second})
		if err := p.Write(t.Context(), tiering.Primary, cold.SegmentPrefix+"large", make([]byte, 8<<20)); err != nil {
			t.Error(err)
		}
	})
}
