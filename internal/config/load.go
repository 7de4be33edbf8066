package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"
)

// Sources is where settings come from.
type Sources struct {
	// Flags holds the flags that were given, by setting name, and "config".
	Flags map[string]string
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Others lists variables with EnvPrefix that other commands read; any
	// other unknown one is warned of.
	Others []string
}

// layer is one source: the text of each setting it holds and how to name the
// place where it stands.
type layer struct {
	texts  map[string]string
	source func(Setting) string
}

// Load reads every setting. A setting that cannot be read is a fault in
// Loaded.Faults and takes the value of the next source below it.
func Load(src Sources) (*Loaded, error) {
	l := &Loaded{}
	variables, err := readEnviron(src.Environ)
	if err != nil {
		return nil, err
	}
	var file fileLayer
	l.File = src.Flags["config"]
	if l.File == "" {
		l.File = variables[fileEnv]
	}
	if l.File != "" {
		file, l.Faults = readFile(l.File)
		file.resolve(filepath.Dir(l.File))
	}
	l.Faults = append(l.Faults, unknownVariables(variables, src.Others)...)

	// Lowest precedence first: koanf lets a later layer win.
	layers := []layer{
		{defaults(), func(Setting) string { return SourceDefault }},
		{file.texts, func(s Setting) string { return fmt.Sprintf("%s:%d", l.File, file.lines[s.Name]) }},
		{byName(variables), Setting.Env},
		{src.Flags, Setting.Flag},
	}
	merged := koanf.New(".")
	inForce := map[string]Value{}
	for _, layer := range layers {
		values := map[string]any{}
		for _, s := range Settings() {
			text, ok := layer.texts[s.Name]
			if !ok {
				continue
			}
			v, err := s.read(text)
			if err != nil {
				l.Faults = append(l.Faults, Fault{Setting: s.Name, Source: layer.source(s), Detail: err.Error()})
				continue
			}
			values[s.Name] = v
			inForce[s.Name] = Value{Name: s.Name, Text: text, Source: layer.source(s)}
		}
		if err := merged.Load(confmap.Provider(values, "."), nil); err != nil {
			return nil, fmt.Errorf("merge the configuration: %w", err)
		}
	}
	if err := merged.Unmarshal("", &l.Config); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	for _, s := range Settings() {
		l.Values = append(l.Values, inForce[s.Name])
	}
	return l, nil
}

// readEnviron returns the variables with EnvPrefix that are not empty.
func readEnviron(environ []string) (map[string]string, error) {
	values, err := env.Provider(".", env.Opt{
		Prefix:      EnvPrefix,
		EnvironFunc: func() []string { return environ },
	}).Read()
	if err != nil {
		return nil, fmt.Errorf("read the environment: %w", err)
	}
	out := map[string]string{}
	for name, v := range values {
		if text := fmt.Sprint(v); text != "" {
			out[name] = text
		}
	}
	return out, nil
}

func byName(variables map[string]string) map[string]string {
	out := map[string]string{}
	for _, s := range Settings() {
		if text, ok := variables[s.Env()]; ok {
			out[s.Name] = text
		}
	}
	return out
}

func defaults() map[string]string {
	out := map[string]string{}
	for _, s := range Settings() {
		out[s.Name] = s.Default
	}
	return out
}

func unknownVariables(variables map[string]string, others []string) []Fault {
	known := append([]string{fileEnv}, others...)
	for _, s := range Settings() {
		known = append(known, s.Env())
	}
	suffixes := make([]string, len(known))
	for i, name := range known {
		suffixes[i] = strings.TrimPrefix(name, EnvPrefix)
	}
	var faults []Fault
	for name := range variables {
		if !slices.Contains(known, name) {
			faults = append(faults, Fault{Source: name, Warning: true, Detail: "tierd knows no such variable" + didYouMean(strings.TrimPrefix(name, EnvPrefix), suffixes, EnvPrefix)})
		}
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Source, b.Source) })
	return faults
}
