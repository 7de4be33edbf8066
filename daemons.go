package tierd

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Daemons that share a warm store have to share hot too: a value that one keeps
// to itself would not change when another writes. They have to share the buckets:
// one that looks elsewhere finds nothing to erase. So whoever opens a shared
// store takes one lease. Its holder is not a daemon but the tiers that it uses:
// daemons with the same ones hold it together, and a daemon whose hot tier is its
// own holds it alone. The last to leave lets it lapse: there is nobody to say who
// is last.
const (
	daemonsLease  = "daemons"
	daemonsTTL    = 15 * time.Second
	daemonsRenew  = daemonsTTL / 5
	daemonsExpiry = daemonsTTL * 2 / 3 // for who has to stop in time, on a clock of his own
)

// membership is this daemon's part in the lease.
type membership struct {
	leases warm.Leases
	holder string
	alone  bool
}

func newMembership(leases warm.Leases, c Config, daemon string) *membership {
	m := &membership{leases: leases}
	m.holder, m.alone = hotHolder(c.Hot, daemon)
	m.holder += "; " + c.bucketPlaces()
	return m
}

// bucketPlace says where a bucket is, without what only says how to reach it.
func bucketPlace(bucket string) string {
	name, folder := scheme(bucket, "dir:")
	if name == "dir" {
		if abs, err := filepath.Abs(folder); err == nil {
			folder = abs
		}
		return "dir:" + folder
	}
	u, err := url.Parse(bucket)
	if err != nil {
		return name // such a URL was opened: what it names is beyond telling
	}
	return name + "://" + u.Host + "/" + strings.Trim(u.Path, "/") + " at " + u.Query().Get("endpoint")
}

// hotHolder names a hot tier in the lease: its kind, hosts and database,
// without credentials and options.
func hotHolder(hotURL, daemon string) (holder string, alone bool) {
	name, rest := scheme(hotURL, "memory:")
	if name == "memory" {
		return "memory of " + daemon, true
	}
	u, err := url.Parse("redis:" + rest)
	if err != nil {
		return name, false // such a URL was opened: what it names is beyond telling
	}
	hosts := append(strings.Split(u.Host, ","), u.Query()["addr"]...)
	slices.Sort(hosts)
	return strings.Replace(name, "rediss", "redis", 1) + " at " + strings.Join(hosts, ",") + strings.TrimSuffix(u.Path, "/0"), false
}

// take takes the lease or renews it. It fails when daemons with another hot
// tier hold it.
func (m *membership) take(ctx context.Context) error {
	l, ok, err := m.leases.Acquire(ctx, daemonsLease, m.holder, daemonsTTL)
	if err != nil {
		return tiering.Wrap(err, "take the lease of the daemons", tiering.Warm, tiering.Key{})
	}
	if ok {
		return nil
	}
	detail := "daemons on one warm store share their other tiers, and those that run use: " + l.Holder + "; this one names: " + m.holder +
		"; name the same, spelled alike, or stop them and wait " + daemonsTTL.String()
	if strings.HasPrefix(l.Holder, "memory of") || m.alone {
		detail = "the warm store is in use by daemons with hot in " + l.Holder + ": a hot tier in process memory goes with one daemon alone; " +
			"name the same redis:// for all with --hot, or stop the others and wait " + daemonsTTL.String()
	}
	if strings.HasPrefix(l.Holder, rebuildHolder) {
		detail = "the warm store is being rebuilt: wait for that, or " + daemonsTTL.String() + " if it was cut short"
	}
	return &tiering.Error{Code: tiering.CodeLeaseHeld, Tier: tiering.Warm, Detail: detail}
}

// rebuildHolder holds the lease while the store is being rebuilt.
const rebuildHolder = "rebuild "

// keep renews the lease until ctx ends. A renewal that fails is tried again; it
// matters to who has to know at once, and he asks take.
func (m *membership) keep(ctx context.Context) {
	atRenewals(ctx, func() { _ = m.take(ctx) })
}

// atRenewals calls renew whenever the lease is to be renewed, until ctx ends.
func atRenewals(ctx context.Context, renew func()) {
	tick := time.NewTicker(daemonsRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			renew()
		}
	}
}

// leave gives the lease up if nobody else holds it with this daemon.
func (m *membership) leave(ctx context.Context) error {
	if !m.alone {
		return nil
	}
	l, ok, err := m.leases.Acquire(ctx, daemonsLease, m.holder, daemonsTTL)
	if err != nil || !ok {
		return err
	}
	return m.leases.Release(ctx, l)
}
