package tiering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
)

// shelf is a Documents that keeps bodies in a map: just enough to judge the
// typed verbs by. Every other method is nil and must not be called.
type shelf struct {
	Documents
	mu      sync.Mutex
	docs    map[string]Document
	last    int64
	gets    []GetOptions
	kind    PatchKind
	patch   []byte
	deflt   json.RawMessage // a policy's default
	between func(s *shelf)  // runs after every get, before the caller has it
}

func (s *shelf) Get(_ context.Context, ns, id string, o *GetOptions) (*Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets = append(s.gets, *o)
	doc, ok := s.docs[id]
	if s.between != nil {
		s.between(s)
	}
	switch {
	case ok:
		return &doc, nil
	case o.Default != nil:
		return &Document{Body: o.Default, Default: "absent"}, nil
	case s.deflt != nil && !o.NoDefault:
		return &Document{Body: s.deflt, Default: "absent"}, nil
	}
	return nil, Errorf(CodeNotFound, "nothing stands")
}

func (s *shelf) Put(_ context.Context, ns, id string, body []byte, o *PutOptions) (*Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stands := s.docs[id].Version; !o.If.Holds(stands) {
		return nil, &Error{Code: CodeVersionConflict, CurrentVersion: stands}
	}
	return s.set(id, body), nil
}

func (s *shelf) Patch(_ context.Context, ns, id string, kind PatchKind, patch []byte, o *WriteOptions) (*Receipt, error) {
	s.kind, s.patch = kind, patch
	return &Receipt{}, nil
}

func (s *shelf) set(id string, body []byte) *Receipt {
	s.last++
	m := Meta{ID: id, Version: s.last}
	if s.docs == nil {
		s.docs = map[string]Document{}
	}
	s.docs[id] = Document{Meta: m, Body: body}
	return &Receipt{Meta: m}
}

type counter struct {
	N    int    `json:"n"`
	Note string `json:"note,omitempty"`
}

func TestTypedValuesKeepTheirText(t *testing.T) {
	for _, c := range []struct {
		name string
		in   any
		want string
	}{
		{"struct without HTML escapes", counter{N: 1, Note: "<a> & b"}, `{"n":1,"note":"<a> & b"}`},
		{"raw message as it is", json.RawMessage(`{"b":1.10,"a":9007199254740993}`), `{"b":1.10,"a":9007199254740993}`},
		{"bytes as they are", []byte(` [1e2] `), ` [1e2] `},
		{"null", nil, `null`},
		{"string", "x\u0000", `"x\u0000"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &shelf{}
			if _, err := Create(t.Context(), s, "n", "k", c.in); err != nil {
				t.Fatal(err)
			}
			if got := string(s.docs["k"].Body); got != c.want {
				t.Fatalf("stored %s, want %s", got, c.want)
			}
			raw, v, err := GetAs[json.RawMessage](t.Context(), s, "n", "k", nil)
			if err != nil || string(raw) != c.want || v != 1 {
				t.Fatalf("read back %s at %d, %v", raw, v, err)
			}
		})
	}
	t.Run("what JSON cannot say is invalid", func(t *testing.T) {
		s := &shelf{}
		if _, err := Create(t.Context(), s, "n", "k", func() {}); !errors.Is(err, ErrInvalid) || len(s.docs) != 0 {
			t.Fatalf("got %v, stored %v", err, s.docs)
		}
	})
}

func TestGetAs(t *testing.T) {
	s := &shelf{deflt: json.RawMessage(`{"n":-1}`)}
	s.set("k", []byte(`{"n":7}`))
	s.set("big", []byte(`{"n":9007199254740993}`))
	s.set("two", []byte(`{"n":1} {}`))

	t.Run("value and version", func(t *testing.T) {
		v, version, err := GetAs[counter](t.Context(), s, "n", "k", nil)
		if err != nil || v.N != 7 || version != 1 {
			t.Fatalf("got %+v at %d, %v", v, version, err)
		}
	})
	t.Run("numbers in an any are exact", func(t *testing.T) {
		v, _, err := GetAs[map[string]any](t.Context(), s, "n", "big", nil)
		if err != nil || v["n"] != json.Number("9007199254740993") {
			t.Fatalf("got %v, %v", v, err)
		}
	})
	t.Run("a policy's default is not a value", func(t *testing.T) {
		if _, _, err := GetAs[counter](t.Context(), s, "n", "none", nil); !errors.Is(err, ErrNotFound) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("the caller's own default has version 0", func(t *testing.T) {
		v, version, err := GetAs[counter](t.Context(), s, "n", "none", &GetOptions{Default: json.RawMessage(`{"n":3}`)})
		if err != nil || v.N != 3 || version != 0 {
			t.Fatalf("got %+v at %d, %v", v, version, err)
		}
	})
	for _, id := range []string{"k", "two"} {
		t.Run("a misfit is an error and no half value: "+id, func(t *testing.T) {
			type other struct {
				A int
				N string
			}
			v, version, err := GetAs[other](t.Context(), s, "n", id, nil)
			if !errors.Is(err, ErrInvalid) || v != (other{}) || version != 0 {
				t.Fatalf("got %+v at %d, %v", v, version, err)
			}
		})
	}
}

func TestCreateAndUpdate(t *testing.T) {
	s := &shelf{}
	if _, err := Create(t.Context(), s, "n", "k", 1); err != nil {
		t.Fatal(err)
	}
	var e *Error
	if _, err := Create(t.Context(), s, "n", "k", 2); !errors.As(err, &e) || e.Code != CodeVersionConflict || e.CurrentVersion != 1 {
		t.Fatalf("a second create: %v", err)
	}
	if r, err := Update(t.Context(), s, "n", "k", 3, 1); err != nil || r.Version != 2 {
		t.Fatalf("update: %+v, %v", r, err)
	}
	if _, err := Update(t.Context(), s, "n", "k", 4, 1); !errors.Is(err, ErrVersionConflict) {
		t.Fatalf("an old version: %v", err)
	}
}

func TestMergeSendsAMergePatch(t *testing.T) {
	s := &shelf{}
	if _, err := Merge(t.Context(), s, "n", "k", map[string]any{"a": nil}); err != nil {
		t.Fatal(err)
	}
	if s.kind != MergePatch || string(s.patch) != `{"a":null}` {
		t.Fatalf("sent %s %s", s.kind, s.patch)
	}
}

func TestEdit(t *testing.T) {
	bump := func(c *counter) error { c.N++; return nil }

	t.Run("an absent key starts from zero, not from a default", func(t *testing.T) {
		s := &shelf{deflt: json.RawMessage(`{"n":100}`)}
		if _, err := Edit(t.Context(), s, "n", "k", bump); err != nil || string(s.docs["k"].Body) != `{"n":1}` {
			t.Fatalf("stored %s, %v", s.docs["k"].Body, err)
		}
		if !s.gets[0].Strong {
			t.Fatal("the read was not strong")
		}
	})
	t.Run("an absent key is only created", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{}
			s.between = func(s *shelf) { s.between = nil; s.set("k", []byte(`{"n":5}`)) }
			if _, err := Edit(t.Context(), s, "n", "k", bump); err != nil || string(s.docs["k"].Body) != `{"n":6}` {
				t.Fatalf("stored %s, %v", s.docs["k"].Body, err)
			}
		})
	})
	t.Run("64 editors lose nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{}
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					if _, err := Edit(t.Context(), s, "n", "k", bump); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if got := string(s.docs["k"].Body); got != `{"n":64}` {
				t.Fatalf("stored %s", got)
			}
		})
	})
	t.Run("fn's error ends it without a write", func(t *testing.T) {
		s := &shelf{}
		s.set("k", []byte(`{"n":1}`))
		before := maps.Clone(s.docs)
		stop := errors.New("enough")
		if _, err := Edit(t.Context(), s, "n", "k", func(*counter) error { return stop }); !errors.Is(err, stop) {
			t.Fatalf("got %v", err)
		}
		if fmt.Sprint(before) != fmt.Sprint(s.docs) {
			t.Fatal("it wrote")
		}
	})
	t.Run("a document that does not fit is not overwritten", func(t *testing.T) {
		s := &shelf{}
		s.set("k", []byte(`"text"`))
		if _, err := Edit(t.Context(), s, "n", "k", bump); !errors.Is(err, ErrInvalid) || s.last != 1 {
			t.Fatalf("got %v, version %d", err, s.last)
		}
	})
	t.Run("a race that is always lost ends in a conflict", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{between: func(s *shelf) { s.set("k", []byte(`{"n":0}`)) }}
			if _, err := Edit(t.Context(), s, "n", "k", bump); !errors.Is(err, ErrVersionConflict) || len(s.gets) != editTries {
				t.Fatalf("got %v after %d tries", err, len(s.gets))
			}
		})
	})
	t.Run("the context ends it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := &shelf{}
			s.between = func(s *shelf) {
				s.set("k", []byte(`{"n":0}`))
				if len(s.gets) == 3 {
					cancel()
				}
			}
			if _, err := Edit(ctx, s, "n", "k", bump); !errors.Is(err, context.Canceled) || len(s.gets) != 3 {
				t.Fatalf("got %v after %d tries", err, len(s.gets))
			}
		})
	})
}

func TestCodeForStatusIsTheCodeOfARead(t *testing.T) {
	for status, want := range map[int]Code{
		404: CodeNotFound, 412: CodeVersionConflict, 400: CodeInvalid, 422: CodeInvalid, 401: CodeUnauthenticated,
		403: CodeForbidden, 409: CodeWrongKind, 410: CodeGone, 429: CodeRateLimited, 500: CodeUnavailable,
		502: CodeUnavailable, 503: CodeUnavailable, 507: CodeOutOfSpace, 408: CodeUnavailable, 418: CodeInvalid,
	} {
		if got := CodeForStatus(status); got != want {
			t.Errorf("%d: got %s, want %s", status, got, want)
		}
	}
}
