package tiering

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"time"
)

// The typed verbs stand over Documents, so that an embedded node and a remote
// client share them. Values are written with encoding/json without its HTML
// escapes; a json.RawMessage or a []byte is taken as JSON and goes as it is.
// Numbers that are read into an any come back as json.Number: a float64 would
// round what the store kept exactly.

// GetAs reads a document into a T and returns its version, the one to hand to
// Update. A document that does not fit T is invalid. The policy's default is
// never answered, because the caller could not tell it from a stored value; a
// default in o is the caller's own, and comes back with version 0.
func GetAs[T any](ctx context.Context, d Documents, ns, id string, o *GetOptions) (value T, version int64, err error) {
	var opts GetOptions
	if o != nil {
		opts = *o
	}
	opts.NoDefault = true
	doc, err := d.Get(ctx, ns, id, &opts)
	if err != nil {
		return value, 0, err
	}
	if doc.Default != "" && opts.Default == nil {
		return value, 0, &Error{Op: "get", Key: Key{Namespace: ns, ID: id}, Code: CodeNotFound, Detail: "only a default was answered"}
	}
	if err := decode(doc.Body, &value); err != nil {
		var zero T
		return zero, 0, misfit(ns, id, value, err)
	}
	return value, doc.Version, nil
}

// Create stores v under a key where nothing stands; version_conflict where
// something does. Of many racing creates one wins.
func Create(ctx context.Context, d Documents, ns, id string, v any) (*Receipt, error) {
	return Update(ctx, d, ns, id, v, 0)
}

// Update replaces the version that the caller read; version_conflict, with the
// version that stands now, when another write came between. Version 0 means
// that nothing may stand.
func Update(ctx context.Context, d Documents, ns, id string, v any, version int64) (*Receipt, error) {
	body, err := encode(v)
	if err != nil {
		return nil, Wrap(err, "put", "", Key{Namespace: ns, ID: id})
	}
	return d.Put(ctx, ns, id, body, &PutOptions{WriteOptions: WriteOptions{If: IfVersion(version)}})
}

// Merge applies a JSON merge patch (RFC 7396): members of patch replace those
// of the document, null removes, everything else stays. An absent key starts
// from {}.
func Merge(ctx context.Context, d Documents, ns, id string, patch any) (*Receipt, error) {
	body, err := encode(patch)
	if err != nil {
		return nil, Wrap(err, "patch", "", Key{Namespace: ns, ID: id})
	}
	return d.Patch(ctx, ns, id, MergePatch, body, nil)
}

// The bounds of Edit. Full jitter up to the cap keeps racing editors from
// meeting again on every try.
const (
	editTries    = 100
	editMinDelay = time.Millisecond
	editMaxDelay = 100 * time.Millisecond
)

// Edit reads a document, lets fn change it, and writes it back if nobody wrote
// in between; otherwise it begins again, with what stands by then, until ctx
// ends or 100 tries have lost their race. An absent key starts from the zero T
// and is only created; a default never is a start. fn may run several times and
// must do nothing but change its argument; an error from it ends Edit without a
// write and is returned as it is.
//
// The whole T is written back: members that T does not know are lost. Use Merge
// or Apply to change a part of a document.
func Edit[T any](ctx context.Context, d Documents, ns, id string, fn func(*T) error) (*Receipt, error) {
	for try := 0; ; try++ {
		value, version, err := GetAs[T](ctx, d, ns, id, &GetOptions{Strong: true})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		if err := fn(&value); err != nil {
			return nil, err
		}
		receipt, err := Update(ctx, d, ns, id, value, version)
		if err == nil || !errors.Is(err, ErrVersionConflict) || try+1 == editTries {
			return receipt, err
		}
		limit := min(editMinDelay<<min(try, 10), editMaxDelay)
		if err := pause(ctx, rand.N(limit)+1); err != nil {
			return nil, Wrap(err, "edit", "", Key{Namespace: ns, ID: id})
		}
	}
}

// pause waits for d or for the end of ctx, whose error it returns.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// encode writes v as JSON. encoding/json would turn < > & into escapes, which
// are other bytes than the caller's.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case json.RawMessage:
		return v, nil
	case []byte:
		return v, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, &Error{Code: CodeInvalid, Detail: "the value cannot be written as JSON", Err: err}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decode reads one JSON value into v. A json.RawMessage or a []byte takes the
// bytes as they are, as encode does.
func decode(b []byte, v any) error {
	switch v := v.(type) {
	case *json.RawMessage:
		*v = bytes.Clone(b)
		return nil
	case *[]byte:
		*v = bytes.Clone(b)
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("bytes follow the JSON value")
	}
	return nil
}

func misfit(ns, id string, v any, err error) error {
	e := Unprocessablef("", "the document does not fit %T", v)
	e.Op, e.Key, e.Err = "get", Key{Namespace: ns, ID: id}, err
	return e
}
