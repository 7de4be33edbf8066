package cold_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
)

func TestAnOccupiedNameTakesNoUpload(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []byte // what lies there first; nil: nothing
	}{
		{"where nothing is", nil},
		{"where an object landed", []byte("an object of a user")},
		{"where a half object landed", []byte{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			var primary, backup coldtest.Memory
			a := cold.NewArchive(&primary, &backup, nil)
			if c.before != nil {
				primary.Replace("seg/a", c.before)
			}
			for range 2 { // the second time it is occupied already
				if errs := a.OccupyBoth(ctx, "seg/a"); errs != [2]error{} {
					t.Fatal(errs)
				}
			}
			for _, b := range []cold.Bucket{&primary, &backup} {
				data, err := b.Read(ctx, "seg/a", 0, -1)
				if err != nil || !cold.Occupied(data) {
					t.Fatalf("the name holds %q, %v", data, err)
				}
			}
			late := bytes.Repeat([]byte("late"), 100)
			if err := primary.Create(ctx, "seg/a", bytes.NewReader(late), int64(len(late))); !errors.Is(err, cold.ErrExist) {
				t.Errorf("a late upload: %v", err)
			}
			for what, err := range map[string]error{
				"write": a.Write(ctx, tiering.Primary, "seg/a", late),
				"open":  second(a.OpenObject(ctx, tiering.Primary, "seg/a")),
			} {
				if !errors.Is(err, tiering.ErrGone) {
					t.Errorf("%s of an occupied name: %v, want gone", what, err)
				}
			}
		})
	}
}

// A copy whose maker read the good one before the name was occupied must not bring
// the object back.
func TestACopyDoesNotUndoAnOccupiedName(t *testing.T) {
	ctx := t.Context()
	var primary coldtest.Memory
	backup := coldtest.NewFaultBucket(&coldtest.Memory{})
	a := cold.NewArchive(&primary, backup, nil)
	enc, err := cold.Encode("t", nil, []cold.Record{{
		Key: tiering.Key{Tenant: "t", Namespace: "n", ID: "k"}, Op: tiering.OpDelete, Version: 1,
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Write(ctx, tiering.Primary, "seg/a", enc.Data); err != nil {
		t.Fatal(err)
	}
	reached, gate := make(chan struct{}), make(chan struct{})
	backup.Inject(coldtest.Fault{Call: coldtest.Create, Times: 1, Reached: reached, Gate: gate})
	copied := make(chan error, 1)
	go func() { copied <- a.CopyObject(context.WithoutCancel(ctx), tiering.Primary, tiering.Backup, "seg/a") }()
	<-reached // the good copy was read
	if errs := a.OccupyBoth(ctx, "seg/a"); errs != [2]error{} {
		t.Fatal(errs)
	}
	close(gate)
	if err := <-copied; !errors.Is(err, tiering.ErrGone) {
		t.Errorf("the copy: %v, want gone", err)
	}
	if data, err := backup.Read(ctx, "seg/a", 0, -1); err != nil || !cold.Occupied(data) {
		t.Errorf("the name holds %d bytes, %v", len(data), err)
	}
}

func TestOccupyingFailsWhenTheBucketDoes(t *testing.T) {
	bucket := coldtest.NewFaultBucket(&coldtest.Memory{})
	down := errors.New("connection refused")
	a := cold.NewArchive(bucket, &coldtest.Memory{}, nil)
	for _, call := range []coldtest.Call{coldtest.Create, coldtest.Stat} {
		bucket.Inject(coldtest.Fault{Call: call, Before: down})
		if err := a.Occupy(t.Context(), tiering.Primary, "seg/a"); !errors.Is(err, tiering.ErrUnavailable) {
			t.Errorf("%s fails: %v, want unavailable", call, err)
		}
		bucket.Clear()
	}
}

func second[T any](_ T, err error) error { return err }
