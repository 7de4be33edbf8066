package tiering_test

import (
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// An entry of a log that lives ages like a document and is never collected.
func TestPlanOfALog(t *testing.T) {
	p := tiering.Policy{Kind: tiering.KindLog, KeepVersions: 1, KeepFor: tiering.Duration(time.Hour)}.WithDefaults()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	entry := tiering.VersionMeta{Version: 3, Op: tiering.OpPut, UpdatedAt: now.Add(-31 * 24 * time.Hour), SupersededAt: now.Add(-31 * 24 * time.Hour), Newer: 100, Copies: 2}
	with := func(change func(*tiering.VersionMeta)) tiering.VersionMeta {
		m := entry
		change(&m)
		return m
	}
	for _, c := range []struct {
		name  string
		m     tiering.VersionMeta
		move  tiering.Move
		ready bool
	}{
		{"an old entry in warm", with(func(m *tiering.VersionMeta) { m.InWarm = true }), tiering.MoveRetire, true},
		{"a young one", with(func(m *tiering.VersionMeta) { m.InWarm = true; m.UpdatedAt = now.Add(-2 * time.Hour) }), tiering.MoveRetire, false},
		{"one of a pinned log", with(func(m *tiering.VersionMeta) { m.InWarm, m.Pinned = true, true }), tiering.MoveRetire, false},
		{"one with a single copy", with(func(m *tiering.VersionMeta) { m.InWarm, m.Copies = true, 1 }), tiering.MoveRetire, false},
		{"an old entry in cold", with(func(m *tiering.VersionMeta) { m.InCold = true }), tiering.MoveStay, false},
		{"one of a deleted log", with(func(m *tiering.VersionMeta) { m.InCold, m.KeyDeleted = true, true }), tiering.MoveCollect, true},
		{"one of an earlier life", with(func(m *tiering.VersionMeta) { m.InCold, m.EarlierLife = true, true }), tiering.MoveCollect, true},
		{"one of a deleted log in warm", with(func(m *tiering.VersionMeta) {
			m.InWarm, m.KeyDeleted, m.UpdatedAt = true, true, now.Add(-2*time.Hour)
		}), tiering.MoveRetire, true},
	} {
		a := p.Plan(now, c.m)
		if a.Move != c.move || a.Ready(now) != c.ready {
			t.Errorf("%s: %+v, want %s, ready %t", c.name, a, c.move, c.ready)
		}
	}
}
