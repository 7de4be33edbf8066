package torture

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// vitals are what a daemon holds.
type vitals struct {
	live                                 float64 // MB: what the last collection left in the heap
	own                                  float64 // MB: resident, without pages of files, which are the binary's
	goroutines, descriptors, connections int
	lag                                  time.Duration // the age of the oldest change that is not archived
}

// within reports whether v holds no more than before did. Pools may have filled to
// their bounds meanwhile, and a request may be under way: that is a few of each.
func (v vitals) within(before vitals) bool {
	const few = 8
	return v.goroutines <= before.goroutines+2*few && v.descriptors <= before.descriptors+few && v.connections <= before.connections+few
}

// quiet returns the vitals once nobody calls and enough holds, or after two minutes.
func (s *soak) quiet(enough func(vitals) bool) (v vitals) {
	s.t.Helper()
	var err error
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		if v, err = s.vitals(); err == nil && enough(v) || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// vitals asks the daemon and the system.
func (s *soak) vitals() (v vitals, err error) {
	asks := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := asks.Get(s.daemon.URL() + "/metrics")
	if err != nil {
		return v, err
	}
	defer res.Body.Close()
	found := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok {
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				found[name] = n
			}
		}
	}
	v.live = found["go_gc_heap_live_bytes"] / 1e6
	v.goroutines, v.descriptors = int(found["go_goroutines"]), int(found["process_open_fds"])
	v.lag = time.Duration(found["tierd_archive_lag_seconds"] * float64(time.Second))
	if err := lines.Err(); err != nil {
		return v, err
	}
	if v.live == 0 || v.goroutines == 0 || v.descriptors == 0 {
		return v, errors.New("the metrics of the process are missing")
	}
	if v.own, err = ownMemory(s.daemon.Process()); err != nil {
		return v, err
	}
	v.connections, err = connections(s.daemon.Process())
	return v, err
}

// ownMemory is the resident memory of a process that no file lies behind, in MB.
func ownMemory(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	kb, _, ok := strings.Cut(strings.TrimSpace(after), " kB")
	if !ok {
		return 0, errors.New("the system does not say how much memory is the process's own")
	}
	n, err := strconv.ParseFloat(kb, 64)
	return n * 1024 / 1e6, err
}

// connections counts the sockets of a process.
func connections(pid int) (n int, err error) {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n, err
}
