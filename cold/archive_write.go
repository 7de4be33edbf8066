package cold

import (
	"bytes"
	"context"
	"errors"

	"github.com/tierd/tierd/tiering"
)

// Write makes one copy of an object and reads it back. nil means that the
// bucket holds exactly data, durably, whoever wrote it: writing the same bytes
// again succeeds. When other bytes have the name, or what comes back differs,
// the error is corrupt and the object is left as it is; when the name was
// occupied it is gone; when the bucket cannot be asked, or does not take the
// object within WritePatience, it is unavailable or out_of_space, and the object
// may be there, or come yet. A bucket that could not be reached before is asked
// whether it answers first.
func (a *Archive) Write(ctx context.Context, c tiering.Copy, name string, data []byte) error {
	err := a.write(ctx, c, name, data)
	return tiering.Wrap(err, "write "+name+" to "+c.String(), tiering.Cold, tiering.Key{})
}

// WriteBoth writes both copies at once. The errors are by copy.
func (a *Archive) WriteBoth(ctx context.Context, name string, data []byte) [2]error {
	return a.both(func(c tiering.Copy) error { return a.Write(ctx, c, name, data) })
}

func (a *Archive) write(ctx context.Context, c tiering.Copy, name string, data []byte) error {
	if a.failed[c].Load() != 0 {
		if _, err := a.look(ctx, c, name); err != nil && !errors.Is(err, ErrNotExist) {
			return err
		}
	}
	b := a.buckets[c]
	within, cancel := context.WithTimeout(ctx, a.writePatience(c, len(data)))
	defer cancel()
	created := b.Create(within, name, bytes.NewReader(data), int64(len(data)))
	// Whatever Create said, only what lies there now counts: a reply may be
	// lost after the object was stored, and a 200 may hide an error.
	info, err := a.look(ctx, c, name)
	if err != nil {
		if errors.Is(err, ErrNotExist) && within.Err() != nil && ctx.Err() == nil {
			a.slow[c].Add(1)
		}
		if created != nil && !errors.Is(created, ErrExist) {
			return created
		}
		return err
	}
	back, cancelBack := context.WithTimeout(ctx, a.writePatience(c, len(data)))
	defer cancelBack()
	if info.Size != int64(len(data)) {
		taken, err := occupied(back, b, name)
		if err != nil {
			return err
		}
		if taken {
			return errOccupied()
		}
		return corruptErr(created, "the bucket holds %d bytes under the name, %d were written", info.Size, len(data))
	}
	got, err := b.Read(back, name, 0, -1)
	if err != nil {
		if back.Err() != nil && ctx.Err() == nil {
			a.slow[c].Add(1)
		}
		return err
	}
	// Equal bytes are equal digests; comparing them is cheaper than hashing.
	if !bytes.Equal(got, data) {
		return corruptErr(created, "the bucket gives back other bytes than were written")
	}
	a.slow[c].Store(0)
	a.failed[c].Store(0)
	return nil
}

// look asks one copy for an object, and notes whether it answers.
func (a *Archive) look(ctx context.Context, c tiering.Copy, name string) (ObjectInfo, error) {
	within, cancel := context.WithTimeout(ctx, a.patience/2)
	defer cancel()
	info, err := a.buckets[c].Stat(within, name)
	if err != nil && !errors.Is(err, ErrNotExist) && ctx.Err() == nil {
		a.away(c)
	}
	return info, err
}
