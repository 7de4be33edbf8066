package router

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
)

// Check compares everything that can be read.
func (m *machine) Check(*rapid.T) {
	want := map[string]fields{}
	for _, short := range machineIDs {
		id := m.prefix + short
		d := m.doc(id)
		if m.live(d) {
			want[id] = d.body
		}
		m.reads(id, "a cached get", &tiering.GetOptions{}, want[id], d.version)
		m.reads(id, "a strong get", &tiering.GetOptions{Strong: true}, want[id], d.version)
		if d.version > 0 {
			m.reads(id, "min_version", &tiering.GetOptions{MinVersion: d.version}, want[id], d.version)
			old := max(1, d.version-1)
			m.reads(id, "an old version", &tiering.GetOptions{Version: old}, d.history[old], old)
		}
	}
	page, err := m.w.r.List(m.ctx, space, &tiering.ListOptions{Prefix: m.prefix, Data: true})
	m.items("a list", page, err, want)
	least := rapid.IntRange(0, 5).Draw(m.T, "least")
	page, err = m.w.r.Query(m.ctx, space, &tiering.Query{Prefix: m.prefix, Filter: json.RawMessage(fmt.Sprintf(`{"x":{"$gte":%d}}`, least))})
	matching := maps.Clone(want)
	maps.DeleteFunc(matching, func(_ string, f fields) bool { x, ok := f["x"]; return !ok || x < least })
	m.items(fmt.Sprintf("a query of x >= %d", least), page, err, matching)
}

func (m *machine) reads(id, how string, o *tiering.GetOptions, body fields, version int64) {
	d, err := m.w.r.Get(m.ctx, space, id, o)
	if body == nil {
		if tiering.CodeOf(err) != tiering.CodeNotFound {
			m.Fatalf("%s of %s answers %+v, %v: want not found", how, id, d, err)
		}
		return
	}
	if err != nil {
		m.Fatalf("%s of %s: %v", how, id, err)
	}
	if d.Version != version || !reflect.DeepEqual(m.parse(d.Body), body) {
		m.Fatalf("%s of %s answers version %d %s: want version %d %v", how, id, d.Version, d.Body, version, body)
	}
}

func (m *machine) parse(b []byte) fields {
	f := fields{}
	if err := json.Unmarshal(b, &f); err != nil {
		m.Fatal(err)
	}
	return f
}

func (m *machine) items(how string, page *tiering.Page, err error, want map[string]fields) {
	if err != nil {
		m.Fatalf("%s: %v", how, err)
	}
	var ids []string
	got := map[string]fields{}
	for _, it := range page.Items {
		ids = append(ids, it.ID)
		got[it.ID] = m.parse(it.Body)
	}
	if !slices.IsSortedFunc(ids, strings.Compare) || !reflect.DeepEqual(got, want) {
		m.Fatalf("%s answers %v of %v, want %v", how, got, ids, want)
	}
}
