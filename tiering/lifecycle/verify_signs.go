package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// isSign reports whether an object is a marker or an erase order.
func isSign(name string) bool {
	return strings.HasPrefix(name, MarkersPrefix) || strings.HasPrefix(name, OrdersPrefix)
}

// soundSign reports whether the bytes are what the name says.
func soundSign(name string, data []byte) bool {
	if strings.HasPrefix(name, MarkersPrefix) {
		m, err := DecodeMarker(data)
		return err == nil && m.Name() == name
	}
	o, err := DecodeOrder(data)
	return err == nil && (o.Name() == name || o.FinalName() == name)
}

// signs checks that both buckets hold the same markers and erase orders: each
// bucket has to be enough for a rebuild.
func (v *verification) signs(ctx context.Context) error {
	if v.sizes[tiering.Primary] == nil || v.sizes[tiering.Backup] == nil {
		return nil
	}
	names := map[string]bool{}
	for _, c := range bothCopies() {
		for name := range v.sizes[c] {
			if isSign(name) {
				names[name] = true
			}
		}
	}
	for name := range names {
		if err := v.sign(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// sign compares the two copies of a marker or order.
func (v *verification) sign(ctx context.Context, name string) error {
	var data [2][]byte
	for _, c := range bothCopies() {
		got, err := v.Archive.Bucket(c).Read(ctx, name, 0, -1)
		if err != nil && !errors.Is(err, cold.ErrNotExist) {
			return tiering.Wrap(err, "read "+name+" from "+c.String(), tiering.Cold, tiering.Key{})
		}
		data[c] = got
	}
	if bytes.Equal(data[0], data[1]) && (data[0] == nil || soundSign(name, data[0])) {
		return nil // alike; or withdrawn since the list
	}
	for _, c := range bothCopies() {
		other := data[tiering.Backup-c]
		if soundSign(name, data[c]) {
			continue
		}
		f := Fault{What: "bad", Object: name, Copy: c.String()}
		if data[c] == nil {
			f.What = "missing"
		}
		if v.Repair && soundSign(name, other) {
			err := v.replaceSign(ctx, c, name, data[c] != nil, other)
			f.Repaired = err == nil
			if err != nil {
				f.Detail = "it could not be made again: " + err.Error()
			}
		}
		v.fault(f)
	}
	if soundSign(name, data[0]) && soundSign(name, data[1]) {
		v.fault(Fault{What: "bad", Object: name, Detail: "the buckets hold different ones: look which is right"})
	}
	return nil
}

func (v *verification) replaceSign(ctx context.Context, c tiering.Copy, name string, there bool, data []byte) error {
	if there {
		if err := v.Archive.Bucket(c).Delete(ctx, name); err != nil {
			return err
		}
	}
	return v.Archive.Write(ctx, c, name, data)
}
