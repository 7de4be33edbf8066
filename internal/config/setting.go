package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/tierd/tierd/internal/cost"
)

// Setting is one thing that can be set.
type Setting struct {
	Name    string
	Default string
	// read turns text into the value of Config's field. Its error says what to
	// write instead, without repeating the text: it may hold a credential.
	read func(text string) (any, error)
}

// Flag returns the setting's flag, with its dashes.
func (s Setting) Flag() string { return "--" + strings.ReplaceAll(s.Name, "_", "-") }

// Of is the command that alone has a flag for the setting; "" is serve.
func (s Setting) Of() string {
	if s.Name == prices {
		return "cost"
	}
	return ""
}

// Env returns the setting's environment variable.
func (s Setting) Env() string { return EnvPrefix + strings.ToUpper(s.Name) }

// EnvPrefix starts every environment variable that tierd reads.
const EnvPrefix = "TIERD_"

// prices is the one setting that may be a mapping in the YAML file.
const prices = "prices"

// fileEnv names the YAML file itself, so it is no setting.
const fileEnv = EnvPrefix + "CONFIG"

// Settings returns every setting, in the order of the documentation.
func Settings() []Setting {
	return []Setting{
		{"listen", "127.0.0.1:8437", readListen},
		{"data", "./tierd-data", readText},
		{"hot", "memory:", readTier("hot")},
		{"warm", "sqlite:", readTier("warm")},
		{"cold", "dir:", readTier("cold")},
		{"backup", "dir:", readTier("backup")},
		{"vector", "flat:", readTier("vector")},
		{"embed", "static:", readTier("embed")},
		{"summarise", "extractive:", readTier("summarise")},
		{"hot_bytes", "256MiB", readBytes},
		{"auto_create", "true", readBool},
		{"require_keys", "false", readBool},
		{"insecure", "false", readBool},
		{"tls_cert", "", readText},
		{"tls_key", "", readText},
		{"log_level", "info", readChoice("debug", "info", "warn", "error")},
		{"log_format", "text", readChoice("text", "json")},
		{prices, cost.Defaults().String(), readPrices},
	}
}

func find(name string) (Setting, bool) {
	all := Settings()
	i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return all[i], true
}

func names() []string {
	var out []string
	for _, s := range Settings() {
		out = append(out, s.Name)
	}
	return out
}

func readText(text string) (any, error) { return text, nil }

func readPrices(text string) (any, error) { return cost.ParsePrices(text) }

func readBool(text string) (any, error) {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return nil, errors.New("use true or false")
	}
	return b, nil
}

func readBytes(text string) (any, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return nil, errors.New("use a size in bytes above 0, such as 268435456, 256MiB or 1GiB")
	}
	return int64(n), nil
}

func readChoice(choices ...string) func(string) (any, error) {
	return func(text string) (any, error) {
		text = strings.ToLower(text)
		if !slices.Contains(choices, text) {
			return nil, fmt.Errorf("%q is none of %s%s", text, strings.Join(choices, ", "), didYouMean(text, choices, ""))
		}
		return text, nil
	}
}

func readListen(text string) (any, error) {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is no address to listen on: use HOST:PORT such as 127.0.0.1:8437 or [::1]:8437, port 0 for any free one", text)
	}
	return text, nil
}
