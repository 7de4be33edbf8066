package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Check returns everything that is wrong with the configuration: the faults
// found while reading it, and those that only show when settings are taken
// together or the disk is looked at. It makes no folder and opens no tier.
func (l *Loaded) Check(now time.Time) []Fault {
	faults := append([]Fault(nil), l.Faults...)
	faults = append(faults, l.checkFolders()...)
	faults = append(faults, l.checkTiers()...)
	return append(faults, l.checkTLS(now)...)
}

// Fault returns a fault of a setting, at the place that set it.
func (l *Loaded) Fault(name, format string, args ...any) Fault {
	return Fault{Setting: name, Source: l.Value(name).Source, Detail: fmt.Sprintf(format, args...)}
}

// checkFolders looks at the data folder and at every tier that is a folder.
func (l *Loaded) checkFolders() []Fault {
	var faults []Fault
	for _, name := range []string{"data", "cold", "backup"} {
		path := l.Value(name).Text
		if name != "data" {
			rest, ok := strings.CutPrefix(path, "dir:")
			if !ok || rest == "" {
				continue
			}
			path, _, _ = strings.Cut(strings.TrimPrefix(rest, "//"), "?")
		}
		if path == "" {
			faults = append(faults, l.Fault(name, "is empty: name a folder"))
		} else if err := writable(path); err != nil {
			faults = append(faults, l.Fault(name, "%v", err))
		}
	}
	return faults
}

// writable tries what a daemon would do: make a file in the folder, or in the
// closest folder above it that is there. Permission bits alone would lie about
// read-only file systems and about root.
func writable(path string) error {
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot be looked at: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is a file: name a folder", dir)
		}
		f, err := os.CreateTemp(dir, ".tierd-check-*")
		switch {
		case errors.Is(err, syscall.EROFS):
			return fmt.Errorf("%s is on a read-only file system: name a folder on another one, or mount it writable", dir)
		case errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("%s is not writable for this user: change its owner or name another folder", dir)
		case errors.Is(err, syscall.ENOSPC):
			return fmt.Errorf("%s is on a file system that is full: free some space or name another folder", dir)
		case err != nil:
			return fmt.Errorf("%s is not writable: name another folder: %w", dir, err)
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
}

// checkTiers looks at tiers that depend on each other.
func (l *Loaded) checkTiers() []Fault {
	var faults []Fault
	scheme := func(name string) string {
		s, _, _ := strings.Cut(l.Value(name).Text, ":")
		return s
	}
	if scheme("vector") == "pgvector" && !strings.HasPrefix(scheme("warm"), "postgres") {
		faults = append(faults, l.Fault("vector", "pgvector: lives in warm's database, and warm is %s: set warm to postgres://..., or vector to flat:", scheme("warm")))
	}
	if cold, backup := place(l.Given("cold")), place(l.Given("backup")); cold != "" && cold == backup {
		faults = append(faults, l.Fault("backup", "is the same place as cold: the two copies must not be lost together"))
	}
	return faults
}

// place is the identity of a bucket: where it is, without what only says how
// to reach it.
func place(bucket string) string {
	if dir, ok := strings.CutPrefix(bucket, "dir:"); ok {
		if dir == "" {
			return ""
		}
		abs, err := filepath.Abs(strings.TrimPrefix(dir, "//"))
		if err != nil {
			return ""
		}
		return "dir:" + abs
	}
	u, err := url.Parse(bucket)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/" + strings.Trim(u.Path, "/") + "?" + u.Query().Get("endpoint") + "&" + u.Query().Get("region")
}

func (l *Loaded) checkTLS(now time.Time) []Fault {
	switch {
	case l.TLSCert == "" && l.TLSKey == "":
		return nil
	case l.TLSCert == "":
		return []Fault{l.Fault("tls_key", "is set and tls_cert is not: set both or neither")}
	case l.TLSKey == "":
		return []Fault{l.Fault("tls_cert", "is set and tls_key is not: set both or neither")}
	}
	var faults []Fault
	for _, name := range []string{"tls_cert", "tls_key"} {
		if _, err := os.ReadFile(l.Value(name).Text); err != nil {
			faults = append(faults, l.Fault(name, "cannot be read: %v", err))
		}
	}
	if faults != nil {
		return faults
	}
	pair, err := tls.LoadX509KeyPair(l.TLSCert, l.TLSKey)
	if err != nil {
		return []Fault{l.Fault("tls_cert", "does not go together with tls_key: %s", strings.TrimPrefix(err.Error(), "tls: "))}
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return []Fault{l.Fault("tls_cert", "holds no certificate that can be read: %v", err)}
	}
	if now.After(leaf.NotAfter) {
		f := l.Fault("tls_cert", "expired on %s: clients will refuse it", leaf.NotAfter.UTC().Format(time.DateOnly))
		f.Warning = true
		return []Fault{f}
	}
	return nil
}

// Show returns the values with credentials redacted.
func (l *Loaded) Show() []Value {
	out := append([]Value(nil), l.Values...)
	for i := range out {
		out[i].Text = Redact(out[i].Text)
	}
	return out
}
