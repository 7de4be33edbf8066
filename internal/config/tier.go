package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Schemes returns the URL schemes of a tier's drivers, the default's first.
func Schemes(tier string) []string {
	switch tier {
	case "hot":
		return []string{"memory", "redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}
	case "warm":
		return []string{"sqlite", "postgres", "postgresql"}
	case "cold", "backup":
		return []string{"dir", "s3"}
	case "vector":
		return []string{"flat", "pgvector"}
	case "embed":
		return []string{"static", "openai+https", "openai+http", "none"}
	case "summarise":
		return []string{"extractive", "openai+https", "openai+http"}
	}
	return nil
}

// readTier checks the form of a tier's URL: what can be known without opening
// the tier. Its errors never quote more than the scheme, because the rest may
// hold a password.
func readTier(tier string) func(string) (any, error) {
	return func(text string) (any, error) {
		known := Schemes(tier)
		scheme, rest, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("is no URL: start it with one of %s", schemeList(known))
		}
		if !slices.Contains(known, scheme) {
			// What stands before the first colon of a malformed URL may be a
			// user name or worse; only a plausible scheme is quoted.
			if !plausibleScheme(scheme) {
				return nil, fmt.Errorf("is no URL: start it with one of %s", schemeList(known))
			}
			return nil, fmt.Errorf("has no driver %q%s: use one of %s", scheme, didYouMean(scheme, known, ""), schemeList(known))
		}
		switch scheme {
		case "sqlite", "dir":
			return text, nil // a file path, not a URL with a host
		case "memory", "flat", "static", "pgvector", "none", "extractive":
			if rest != "" && !strings.HasPrefix(rest, "?") {
				return nil, fmt.Errorf("%s: takes nothing behind the colon", scheme)
			}
			return text, nil
		}
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("is no URL that can be read behind %s: write special characters of a user name or password as %%XX, such as %%2F for a slash", scheme)
		}
		if u.Host == "" {
			if scheme == "s3" {
				return nil, errors.New("names no bucket: use s3://BUCKET/PREFIX")
			}
			return nil, fmt.Errorf("names no host: use %s://HOST", scheme)
		}
		return text, nil
	}
}

func schemeList(known []string) string { return strings.Join(known, ":, ") + ":" }

func plausibleScheme(s string) bool {
	if s == "" || len(s) > 20 {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789+") == ""
}

// Redact returns the text of a setting with its credentials replaced: the
// userinfo of a URL and the values of query parameters that carry secrets. It
// works on malformed URLs too, where it hides rather too much.
func Redact(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = "***" + rest[i:]
	}
	out := scheme + "://" + rest
	if !hasQuery {
		return out
	}
	if strings.Contains(query, "@") {
		// A question mark inside a password that was not escaped.
		return scheme + "://***" + query[strings.LastIndexByte(query, '@'):]
	}
	parts := strings.Split(query, "&")
	for i, p := range parts {
		if name, _, ok := strings.Cut(p, "="); ok && secretParameter(name) {
			parts[i] = name + "=***"
		}
	}
	return out + "?" + strings.Join(parts, "&")
}

func secretParameter(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "secret", "token", "key", "credential"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
