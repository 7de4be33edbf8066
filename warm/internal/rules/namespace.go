package rules

import (
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Namespace is a namespace's row. Every namespace that holds a key has one, reserved
// ones too.
type Namespace struct {
	warm.Namespace
	Known   bool // EnsureNamespace made it
	Written bool // a key was written: kind and class are fixed
}

// Ensure makes of the row what warm.Namespaces.EnsureNamespace promises, and returns it
// as it stands then.
func (n *Namespace) Ensure(as warm.Namespace) warm.Namespace {
	if !n.Known {
		n.Floor = max(n.Floor, as.Floor)
	}
	if !n.Known || !n.Written {
		n.Kind, n.Class = as.Kind, as.Class
	}
	n.Known, n.Deleted = true, false
	return n.Namespace
}

// Restore makes of the row what warm.Restorer.RestoreNamespace promises.
func (n *Namespace) Restore(as warm.Namespace) {
	n.Kind, n.Class, n.Deleted, n.Known = as.Kind, as.Class, as.Deleted, true
	n.Floor = max(n.Floor, as.Floor)
}

// fits reports whether the namespace is what the change's writer takes it for. Once a
// key was written neither kind nor class changes, and whoever knows the namespace knows
// both.
func (n *Namespace) fits(c *warm.Change) bool {
	return n.Written || c.Kind == "" || c.Key.Reserved() || c.Kind == n.Kind && c.Class == n.Class
}

// takes reports whether the change may be made in the namespace. The sweep may still
// bury what expired in one that was dropped.
func (n *Namespace) takes(c *warm.Change) bool {
	if c.Key.Reserved() {
		return true
	}
	return n.Known && n.fits(c) && (!n.Deleted || len(c.Rows) == 1 && c.Rows[0].Op == tiering.OpExpire)
}

// Is reports whether the row is there and of what as says, which
// warm.Namespaces.FixNamespace asks.
func (n *Namespace) Is(as warm.Namespace) bool {
	return n.Known && !n.Deleted && n.Kind == as.Kind && n.Class == as.Class
}
