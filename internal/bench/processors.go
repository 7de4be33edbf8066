package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// spent is processor time in seconds. Throughput suffers from whatever else a
// machine does; the processor time of an operation does not.
type spent struct {
	own, postgres, redis float64
	elsewhere            float64 // programs that have no part in the run
}

func (s spent) total() float64 { return s.own + s.postgres + s.redis }

// processors reads what programs have used of this machine's processors. It
// knows nothing, and answers zero, where there is no /proc or the servers run
// on another machine. Other users of the same servers are counted too.
type processors struct {
	postmaster, redis int // process ids, 0 unknown
}

func (b *bench) findServers(ctx context.Context) error {
	c, err := pgx.Connect(ctx, b.Warm)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	var backend int
	if err := c.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return err
	}
	if p, ok := readProcess(strconv.Itoa(backend)); ok && p.name == "postgres" {
		b.processors.postmaster = p.parent
	}
	r, err := b.redis()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	info, err := r.InfoMap(ctx, "server").Result()
	if err != nil {
		return err
	}
	id, _ := strconv.Atoi(info["Server"]["process_id"])
	if p, ok := readProcess(strconv.Itoa(id)); ok && strings.HasPrefix(p.name, "redis") {
		b.processors.redis = id
	}
	return nil
}

// read is what every program has used since it started.
func (p processors) read() map[int]process {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	all := make(map[int]process, len(stats))
	for _, stat := range stats {
		if x, ok := readProcess(filepath.Base(filepath.Dir(stat))); ok {
			all[x.id] = x
		}
	}
	return all
}

// between sums up what was used from one reading to the next. Programs that
// ended meanwhile are left out.
func (p processors) between(before, after map[int]process) (s spent) {
	self := os.Getpid()
	for id, x := range after {
		used := x.used
		if earlier := before[id]; earlier.began == x.began {
			used = max(0, used-earlier.used)
		}
		switch {
		case id == self:
			s.own += used
		case p.postmaster != 0 && (id == p.postmaster || x.parent == p.postmaster):
			s.postgres += used
		case p.redis != 0 && id == p.redis:
			s.redis += used
		case x.name != "minio":
			s.elsewhere += used
		}
	}
	return s
}

type process struct {
	id, parent int
	name       string
	began      string  // which process of that id
	used       float64 // seconds
}

// readProcess parses /proc/ID/stat: "id (name) state parent ...", where the
// fields 14 and 15 are ticks of 10 ms in user and system mode, and 22 is when
// it began. The name may change.
func readProcess(id string) (p process, ok bool) {
	text, err := os.ReadFile("/proc/" + id + "/stat")
	if err != nil {
		return p, false
	}
	before, rest, ok := strings.Cut(string(text), " (")
	end := strings.LastIndex(rest, ") ")
	if !ok || end < 0 {
		return p, false
	}
	fields := strings.Fields(rest[end+2:])
	if len(fields) < 20 {
		return p, false
	}
	var user, system int
	_, err = fmt.Sscan(before+" "+fields[1]+" "+fields[11]+" "+fields[12], &p.id, &p.parent, &user, &system)
	p.name, p.began, p.used = rest[:end], fields[19], float64(user+system)/100
	return p, err == nil
}
