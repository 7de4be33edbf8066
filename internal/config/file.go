package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	yamlnode "go.yaml.in/yaml/v3"
)

// fileLayer is the YAML file: the text of each setting and its line.
type fileLayer struct {
	texts map[string]string
	lines map[string]int
}

// readFile reads the YAML file at path. Every key is a
// setting.
func readFile(path string) (fileLayer, []Fault) {
	layer := fileLayer{texts: map[string]string{}, lines: map[string]int{}}
	raw, err := os.ReadFile(path)
	if err != nil {
		detail := "cannot be read: " + err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			detail = "there is no such file"
		}
		return layer, []Fault{{Source: path, Detail: detail}}
	}
	keys := mappingKeys(raw)
	if faults := twice(path, keys); faults != nil {
		return layer, faults
	}
	values, err := yaml.Parser().Unmarshal(raw)
	if err != nil {
		return layer, []Fault{{Source: path, Detail: yamlDetail(err)}}
	}
	var faults []Fault
	for _, key := range keys {
		at := fmt.Sprintf("%s:%d", path, key.Line)
		if _, ok := find(key.Value); !ok {
			faults = append(faults, Fault{Source: at, Detail: fmt.Sprintf("unknown key %q%s", key.Value, didYouMean(strings.ReplaceAll(key.Value, "-", "_"), names(), ""))})
			continue
		}
		switch v := values[key.Value].(type) {
		case nil:
			// "hot:" with nothing behind it is the default, as an empty variable is.
		case string, bool, int, int64, uint64, float64:
			layer.texts[key.Value] = fmt.Sprint(v)
			layer.lines[key.Value] = key.Line
		default:
			if mapping, ok := v.(map[string]any); ok && key.Value == prices {
				layer.texts[prices], layer.lines[prices] = listed(mapping), key.Line
				continue
			}
			faults = append(faults, Fault{Setting: key.Value, Source: at, Detail: "wants one value, not a list or a mapping"})
		}
	}
	return layer, faults
}

// listed writes a mapping as one would on the command line: a=1,b=2.
func listed(mapping map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(mapping)) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, mapping[name]))
	}
	return strings.Join(parts, ",")
}

// resolve makes the paths of the file count from its own folder: a daemon reads
// the same file wherever it was started.
func (f fileLayer) resolve(folder string) {
	for name, text := range f.texts {
		switch name {
		case "data", "tls_cert", "tls_key":
			f.texts[name] = under(folder, text)
		case "warm", "cold", "backup":
			scheme, path, ok := strings.Cut(text, ":")
			if ok && (scheme == "dir" || scheme == "sqlite") {
				f.texts[name] = scheme + ":" + under(folder, path)
			}
		}
	}
}

// under joins a relative path to a folder. One that is absolute or empty stays.
func under(folder, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// twice returns a fault for every key that stands again in a file.
func twice(path string, keys []*yamlnode.Node) []Fault {
	first := map[string]int{}
	var faults []Fault
	for _, key := range keys {
		if line, ok := first[key.Value]; ok {
			faults = append(faults, Fault{Source: fmt.Sprintf("%s:%d", path, key.Line), Detail: fmt.Sprintf("%q stands on line %d already: write each setting once", key.Value, line)})
			continue
		}
		first[key.Value] = key.Line
	}
	return faults
}

// mappingKeys returns the key nodes of the top-level mapping, none when the
// document is something else or cannot be parsed.
func mappingKeys(raw []byte) []*yamlnode.Node {
	var doc yamlnode.Node
	if err := yamlnode.Unmarshal(raw, &doc); err != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yamlnode.MappingNode {
		return nil
	}
	var keys []*yamlnode.Node
	for i := 0; i < len(doc.Content[0].Content); i += 2 {
		keys = append(keys, doc.Content[0].Content[i])
	}
	return keys
}

// yamlDetail keeps the line of a YAML error and leaves out the content that it
// may quote: a mistyped line can hold a password.
func yamlDetail(err error) string {
	if _, ok := errors.AsType[*yamlnode.TypeError](err); ok {
		return "is no mapping of settings: write lines such as listen: 127.0.0.1:8437, each setting once"
	}
	return strings.TrimPrefix(err.Error(), "yaml: ") + ": see that colons are followed by a space and that URLs stand in quotes"
}
