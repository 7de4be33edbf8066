package vector

import (
	"math"
	"testing"
)

func TestSpacesCompareByID(t *testing.T) {
	base := Space{Name: "openai", Model: "bge-m3", Dimensions: 1024, QueryPrefix: "query: "}
	same := base
	same.MaxInput, same.MaxBatch = 8192, 32
	if base.ID() == "" || same.ID() != base.ID() {
		t.Errorf("limits are no part of the identity: %q, %q", base.ID(), same.ID())
	}
	for name, other := range map[string]Space{
		"another embedder":             {Name: "static", Model: "bge-m3", Dimensions: 1024, QueryPrefix: "query: "},
		"another model":                {Name: "openai", Model: "bge-m4", Dimensions: 1024, QueryPrefix: "query: "},
		"a model spelt alike":          {Name: "openai", Model: "bge+m3", Dimensions: 1024, QueryPrefix: "query: "},
		"another version":              {Name: "openai", Model: "bge-m3", Version: "2", Dimensions: 1024, QueryPrefix: "query: "},
		"other dimensions":             {Name: "openai", Model: "bge-m3", Dimensions: 512, QueryPrefix: "query: "},
		"no prefix":                    {Name: "openai", Model: "bge-m3", Dimensions: 1024},
		"the prefix on documents":      {Name: "openai", Model: "bge-m3", Dimensions: 1024, DocumentPrefix: "query: "},
		"a field that runs over":       {Name: "openai", Model: "bge-m3query: ", Dimensions: 1024},
		"dimensions that aren't known": {Name: "openai", Model: "bge-m3", QueryPrefix: "query: "},
	} {
		if other.ID() == base.ID() {
			t.Errorf("%s: both are %q", name, base.ID())
		}
	}
	if id := (Space{Name: "openai", Model: "m"}).ID(); id != "" {
		t.Errorf("a space that is not known has the ID %q", id)
	}
}

func TestNormaliseScalesOrRefuses(t *testing.T) {
	v := Normalise([]float32{3, 4})
	if v == nil || math.Abs(Dot(v, v)-1) > 1e-6 {
		t.Errorf("got %v", v)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, v := range map[string][]float32{"empty": {}, "zero": {0, 0}, "not a number": {1, nan}, "infinite": {1, inf}} {
		if got := Normalise(v); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
