package tiering

import "time"

// Move is what the lifecycle may do to a version or a key.
type Move string

// The moves that Plan decides. Stay means nothing is ever due.
const (
	MoveStay    Move = "stay"
	MoveExpire  Move = "expire"  // head: becomes a deleted version
	MoveDemote  Move = "demote"  // head: bytes leave warm
	MoveRetire  Move = "retire"  // superseded version: bytes leave warm
	MoveCollect Move = "collect" // superseded or deleted version: leaves cold too
)

// VersionMeta is what Plan needs to know about one version. Times are warm's.
type VersionMeta struct {
	Version      int64
	Op           Op
	Current      bool      // the head stands at this version
	UpdatedAt    time.Time // when the version was committed
	SupersededAt time.Time // when the next version was; zero for the current one
	AccessedAt   time.Time // last known read or write of the key; current only
	ExpiresAt    time.Time // current only; zero: never
	Pinned       bool
	InWarm       bool  // its bytes are in warm
	InCold       bool  // a segment holds it
	Copies       int   // verified cold copies, 0 to 2
	Newer        int64 // versions of the key above this one
	KeyDeleted   bool  // the head is a tombstone: keep_versions covers nothing
	EarlierLife  bool  // the key was deleted since, and made anew
}

// Action is the next thing that is due for a version. Due may lie in the
// future; Blocked says, in words for a person, what stands in the way now.
type Action struct {
	Move    Move      `json:"move"`
	Due     time.Time `json:"due,omitzero"`
	Blocked []string  `json:"blocked,omitempty"`
}

// Ready reports whether the action may be taken at now.
func (a Action) Ready(now time.Time) bool {
	return a.Move != MoveStay && len(a.Blocked) == 0 && !now.Before(a.Due)
}

// Plan decides the next move of one version under the policy. It is a pure
// function: the same arguments give the same answer, and nothing else in tierd
// decides a move. now is warm's clock; p must have its defaults filled in.
func (p Policy) Plan(now time.Time, m VersionMeta) Action {
	if !p.Durable() {
		return Action{Move: MoveStay}
	}
	if m.UpdatedAt.After(now.Add(maxSkew)) {
		return Action{Move: MoveStay, Blocked: []string{"written in the future: the clock jumped"}}
	}
	if m.Current && !m.Op.Deleting() {
		return p.planLive(now, m)
	}
	return p.planHistory(m)
}

// maxSkew is how far ahead of warm's clock a version's time may lie before
// ages mean nothing.
const maxSkew = 24 * time.Hour

func (p Policy) planLive(now time.Time, m VersionMeta) Action {
	demote := Action{Move: MoveStay}
	if m.InWarm {
		idle := m.UpdatedAt
		if m.AccessedAt.After(idle) {
			idle = m.AccessedAt
		}
		demote = Action{Move: MoveDemote, Due: idle.Add(p.DemoteAfter.Std())}
		demote.Blocked = blockers(m)
	}
	expires := !m.ExpiresAt.IsZero()
	if expires && (demote.Move == MoveStay || !m.ExpiresAt.After(demote.Due) || !now.Before(m.ExpiresAt)) {
		a := Action{Move: MoveExpire, Due: m.ExpiresAt}
		if m.Pinned {
			a.Blocked = []string{"pinned"}
		}
		return a
	}
	return demote
}

// planHistory: a version that no longer stands leaves warm after RetireAfter,
// and cold when neither KeepVersions nor KeepFor covers it. A tombstone is
// history too, counted from its own time; under it only KeepFor covers, or a
// deleted key would never be collected. Of a log or session that lives nothing is
// collected; an entry of a log is no history, and ages like a document.
func (p Policy) planHistory(m VersionMeta) Action {
	since := m.SupersededAt
	if m.Current {
		since = m.UpdatedAt
	}
	lives := !m.KeyDeleted && !m.EarlierLife
	if m.InWarm && p.Kind == KindLog && lives {
		return Action{Move: MoveRetire, Due: m.UpdatedAt.Add(p.DemoteAfter.Std()), Blocked: blockers(m)}
	}
	if m.InWarm {
		return Action{Move: MoveRetire, Due: since.Add(p.RetireAfter.Std()), Blocked: blockers(VersionMeta{Copies: m.Copies})}
	}
	if !m.InCold || p.KeepsAll() && lives {
		return Action{Move: MoveStay}
	}
	a := Action{Move: MoveCollect, Due: since.Add(p.KeepFor.Std())}
	if m.Pinned {
		a.Blocked = append(a.Blocked, "pinned")
	}
	if !m.KeyDeleted && m.Newer < p.KeepVersions {
		a.Blocked = append(a.Blocked, "covered by keep_versions")
	}
	return a
}

func blockers(m VersionMeta) []string {
	var out []string
	if m.Pinned {
		out = append(out, "pinned")
	}
	if m.Copies < 2 {
		out = append(out, "waits for two verified cold copies")
	}
	return out
}
