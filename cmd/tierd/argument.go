package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// keyArg is NS/ID on the command line. The id may hold slashes.
type keyArg struct{ NS, ID string }

// UnmarshalText reads NS/ID and checks both parts.
func (k *keyArg) UnmarshalText(b []byte) error {
	ns, id, ok := strings.Cut(string(b), "/")
	if !ok {
		return fmt.Errorf("%q is no NS/ID: write the namespace, a slash and the id, such as agents/planner", b)
	}
	if err := tiering.ValidateNamespace(ns); err != nil {
		return detailOf(err)
	}
	if err := tiering.ValidateID(id); err != nil {
		return detailOf(err)
	}
	k.NS, k.ID = ns, id
	return nil
}

// nsArg is a namespace on the command line.
type nsArg string

// UnmarshalText checks the name.
func (n *nsArg) UnmarshalText(b []byte) error {
	if err := tiering.ValidateNamespace(string(b)); err != nil {
		return detailOf(err)
	}
	*n = nsArg(b)
	return nil
}

// partArg is a session's id, or a name, on the command line: without slashes.
type partArg string

// UnmarshalText checks it.
func (a *partArg) UnmarshalText(b []byte) error {
	if err := tiering.ValidatePartName(string(b)); err != nil {
		return detailOf(err)
	}
	*a = partArg(b)
	return nil
}

// ttlFlag is a life: whole seconds, 30m, 12h, 7d or none.
type ttlFlag struct{ ttl *tiering.TTL }

// UnmarshalText reads the API's form.
func (t *ttlFlag) UnmarshalText(b []byte) error {
	ttl, err := tiering.ParseTTL(string(b))
	if err != nil {
		return detailOf(err)
	}
	t.ttl = ttl
	return nil
}

// timeFlag is a time, or an age that counts back from now.
type timeFlag struct {
	at  time.Time
	age time.Duration
}

// UnmarshalText reads RFC 3339, a date, or an age such as 2h or 7d.
func (t *timeFlag) UnmarshalText(b []byte) error {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if at, err := time.Parse(layout, string(b)); err == nil {
			t.at = at
			return nil
		}
	}
	age, err := tiering.ParseDuration(string(b))
	if err != nil || age == 0 {
		return fmt.Errorf("%q is no time: use 2026-01-31T12:00:00Z, 2026-01-31, or an age such as 2h or 7d", b)
	}
	t.age = age
	return nil
}

// time returns the time meant, the zero time when the flag was not given.
func (t timeFlag) time(now time.Time) time.Time {
	if t.age > 0 {
		return now.Add(-t.age)
	}
	return t.at
}

// detailOf takes the words of an error without its code.
func detailOf(err error) error {
	if e, ok := errors.AsType[*tiering.Error](err); ok && e.Detail != "" {
		return errors.New(e.Detail)
	}
	return err
}

// writeFlags guard a write.
type writeFlags struct {
	IfVersion      *int64 `placeholder:"N" help:"Only if this version stands; 0: only if nothing does."`
	IdempotencyKey string `placeholder:"TEXT" help:"Do this once in 24 h: the same key again answers the first result."`
}

func (f writeFlags) options() (tiering.WriteOptions, error) {
	o := tiering.WriteOptions{IdempotencyKey: f.IdempotencyKey}
	if f.IfVersion != nil {
		if *f.IfVersion < 0 {
			return o, usagef("--if-version %d: versions are 0 or above", *f.IfVersion)
		}
		o.If = tiering.IfVersion(*f.IfVersion)
	}
	return o, nil
}

// openInput opens a file for reading, standard input for "-".
func (p *process) openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(p.stdin), nil
	}
	return os.Open(name)
}

// readInput reads a whole file, standard input for "-".
func (p *process) readInput(name string) ([]byte, error) {
	f, err := p.openInput(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// inline returns JSON from the command line, from standard input for "-".
func (p *process) inline(arg string) ([]byte, error) {
	if arg == "-" {
		return p.readInput("-")
	}
	return []byte(arg), nil
}

// decodeStrict reads one JSON value and refuses fields that v does not have:
// a mistyped field must not be dropped in silence.
func decodeStrict(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		if _, ok := errors.AsType[*tiering.Error](err); ok {
			return detailOf(err)
		}
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if dec.More() {
		return errors.New("there is more behind the JSON value")
	}
	return nil
}
