// Package config finds the settings of a tierd daemon in flags, environment
// variables and a YAML file, in that order of precedence, remembers where each
// came from, and checks them all before anything is opened.
//
// Every setting has one name. It is the key in the YAML file (hot_bytes), the
// flag with dashes (--hot-bytes) and the variable in capitals
// (TIERD_HOT_BYTES). An empty variable counts as unset, so that a compose file
// may pass on a variable that nobody set. A relative path in the YAML file
// counts from the file's own folder; everywhere else it counts from the working
// directory.
package config

import "github.com/tierd/tierd/internal/cost"

// Config is the effective configuration of a daemon.
type Config struct {
	Listen      string `koanf:"listen"`
	Data        string `koanf:"data"`
	Hot         string `koanf:"hot"`
	Warm        string `koanf:"warm"`
	Cold        string `koanf:"cold"`
	Backup      string `koanf:"backup"`
	Vector      string `koanf:"vector"`
	Embed       string `koanf:"embed"`
	Summarise   string `koanf:"summarise"`
	HotBytes    int64  `koanf:"hot_bytes"` // bound of the in-process hot tier, in bytes
	AutoCreate  bool   `koanf:"auto_create"`
	RequireKeys bool   `koanf:"require_keys"`
	Insecure    bool   `koanf:"insecure"`
	TLSCert     string `koanf:"tls_cert"`
	TLSKey      string `koanf:"tls_key"`
	LogLevel    string `koanf:"log_level"`
	LogFormat   string `koanf:"log_format"`

	// Prices are what "tierd cost" estimates with; a daemon has no use for them.
	Prices cost.Prices `koanf:"prices"`
}

// Loaded is a configuration with the source of each value.
type Loaded struct {
	Config
	// File is the YAML file that was read, "" for none.
	File string
	// Values holds one entry per setting, in the order of Settings.
	Values []Value
	// Faults are the settings that could not be read. Check adds to them.
	Faults []Fault
}

// Value is one setting as it is in force.
type Value struct {
	Name   string `json:"setting"`
	Text   string `json:"value"`
	Source string `json:"source"` // "--hot", "TIERD_HOT", "tierd.yaml:3" or "default"
}

// SourceDefault is the Source of a value that nobody set.
const SourceDefault = "default"

// Fault is one thing that is wrong with the configuration.
type Fault struct {
	Setting string `json:"setting,omitempty"` // "" when it is no setting's
	Source  string `json:"source"`            // as Value.Source
	Detail  string `json:"detail"`            // what is wrong and what to do
	// Warning marks what does not keep a daemon from starting.
	Warning bool `json:"warning,omitempty"`
}

// String returns the place, the setting where the place does not name it, and
// the detail.
func (f Fault) String() string {
	s := Setting{Name: f.Setting}
	if f.Setting == "" || f.Source == s.Flag() || f.Source == s.Env() {
		return f.Source + ": " + f.Detail
	}
	return f.Source + ": " + f.Setting + ": " + f.Detail
}

// Value returns one setting as it is in force; the zero Value when there is no
// setting of that name.
func (l *Loaded) Value(name string) Value {
	for _, v := range l.Values {
		if v.Name == name {
			return v
		}
	}
	return Value{}
}

// Given returns the text of a setting that somebody set, "" for a default.
func (l *Loaded) Given(name string) string {
	if v := l.Value(name); v.Source != SourceDefault {
		return v.Text
	}
	return ""
}

// Split separates the faults that stop a daemon from those that do not.
func Split(faults []Fault) (stopping, warnings []Fault) {
	for _, f := range faults {
		if f.Warning {
			warnings = append(warnings, f)
		} else {
			stopping = append(stopping, f)
		}
	}
	return stopping, warnings
}
