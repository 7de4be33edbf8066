package cold

import (
	"bytes"
	"context"
	"errors"

	"github.com/tierd/tierd/tiering"
)

// marker is what an occupied name holds. It is no segment, so that nothing
// which lists segments can take it for one, and it says to a person what it is.
const marker = "tierd: this name is taken so that no late upload can land on it; it may be deleted\n"

// occupyTries bounds how often Occupy deletes an object that comes back.
const occupyTries = 100

// Occupy makes sure that one copy of an object is gone, with all its versions,
// and that nobody can write it any more: the name is taken by a marker. An
// upload of it that is on its way fails, because Create refuses a name that is
// taken. It succeeds when the name is occupied already.
func (a *Archive) Occupy(ctx context.Context, c tiering.Copy, name string) error {
	return tiering.Wrap(a.occupy(ctx, a.buckets[c], name), "occupy "+name+" in "+c.String(), tiering.Cold, tiering.Key{})
}

func (a *Archive) occupy(ctx context.Context, b Bucket, name string) error {
	for range occupyTries {
		err := b.Create(ctx, name, bytes.NewReader([]byte(marker)), int64(len(marker)))
		if err == nil {
			// A 200 may hide an error: what lies there now counts.
			err = ErrExist
		}
		if !errors.Is(err, ErrExist) {
			return err
		}
		taken, err := occupied(ctx, b, name)
		if taken || err != nil {
			return err
		}
		// What landed there first goes. An upload that lands between this and
		// the next try is met by the next.
		if err := b.Delete(ctx, name); err != nil {
			return err
		}
	}
	return tiering.Errorf(tiering.CodeUnavailable, "the object came back %d times", occupyTries)
}

// occupied reports whether the name holds the marker; false when nothing is there.
func occupied(ctx context.Context, b Bucket, name string) (bool, error) {
	info, err := b.Stat(ctx, name)
	if err == nil && info.Size != int64(len(marker)) {
		return false, nil
	}
	var data []byte
	if err == nil {
		data, err = b.Read(ctx, name, 0, -1)
	}
	if errors.Is(err, ErrNotExist) {
		return false, nil
	}
	return err == nil && Occupied(data), err
}

// errOccupied is the answer for an object whose name is occupied.
func errOccupied() *tiering.Error {
	return tiering.Errorf(tiering.CodeGone, "the object was given up, and its name is occupied")
}

// OccupyBoth occupies the name in both buckets at once. The errors are by copy.
func (a *Archive) OccupyBoth(ctx context.Context, name string) [2]error {
	return a.both(func(c tiering.Copy) error { return a.Occupy(ctx, c, name) })
}

// Occupied reports whether an object's bytes are the marker of an occupied
// name.
func Occupied(data []byte) bool { return string(data) == marker }
