package tiering

import (
	"strings"
	"unicode/utf8"
)

// MaxIDLength is the longest id, in bytes.
const MaxIDLength = 1024

// DefaultTenant owns everything on a node that runs without API keys.
const DefaultTenant = "default"

// Reserved namespaces hold tierd's own documents, so that they are archived
// and rebuilt like everything else. Their names start with an underscore,
// which ValidateNamespace refuses, so no caller can reach them by name.
const (
	PolicyNamespace = "_policy" // id: a namespace; body: its Policy
	APIKeyNamespace = "_keys"   // id: a key's id; body: its APIKey with a hash
)

// Key names one document, log or memory. Keys are compared bytewise. The zero
// Key is not valid.
type Key struct {
	Tenant    string
	Namespace string
	ID        string
}

// String returns namespace/id: the form users write; without an id the
// namespace alone. The tenant is left out because no user names it.
func (k Key) String() string {
	if k.ID == "" {
		return k.Namespace
	}
	return k.Namespace + "/" + k.ID
}

// Compare orders keys by tenant, then namespace, then id, bytewise. Every
// transaction that locks several keys locks them in this order.
func (k Key) Compare(o Key) int {
	if c := strings.Compare(k.Tenant, o.Tenant); c != 0 {
		return c
	}
	if c := strings.Compare(k.Namespace, o.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.ID, o.ID)
}

// Reserved reports whether the key lies in one of tierd's own namespaces.
func (k Key) Reserved() bool { return strings.HasPrefix(k.Namespace, "_") }

// ValidateNamespace checks a namespace's name: [a-z0-9][a-z0-9._-]{0,127}.
func ValidateNamespace(ns string) error {
	return validateName("namespace", ns, 128)
}

// ValidateTenant checks a tenant's name, which has a namespace's form.
func ValidateTenant(tenant string) error {
	return validateName("tenant", tenant, 128)
}

func validateName(what, s string, most int) error {
	if s == "" || len(s) > most {
		return Invalidf("%s is %d bytes long: use 1 to %d", what, len(s), most)
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if alnum || i > 0 && (c == '.' || c == '_' || c == '-') {
			continue
		}
		return Invalidf("%s %q: byte %d is %q: use a-z, 0-9 and, after the first, . _ -", what, s, i, c)
	}
	return nil
}

// ValidateID checks an id: 1 to 1024 bytes of UTF-8, no control characters, no
// empty, "." or ".." segment between slashes (HTTP clients and proxies rewrite
// those, so a write would land on another key).
func ValidateID(id string) error {
	if id == "" || len(id) > MaxIDLength {
		return Invalidf("id is %d bytes long: use 1 to %d", len(id), MaxIDLength)
	}
	if !utf8.ValidString(id) {
		return Invalidf("id %q is not valid UTF-8", id)
	}
	for i, r := range id {
		if r < 0x20 || r >= 0x7f && r <= 0x9f {
			return Invalidf("id %q: control character at byte %d", id, i)
		}
	}
	for seg := range strings.SplitSeq(id, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return Invalidf("id %q: segment %q between slashes is not allowed", id, seg)
		}
	}
	return nil
}

// ValidateOwner checks a user, agent or app name: 1 to 256 bytes of UTF-8
// without control characters. what names the field in the error.
func ValidateOwner(what, s string) error {
	if s == "" || len(s) > 256 {
		return Invalidf("%s is %d bytes long: use 1 to 256", what, len(s))
	}
	if !utf8.ValidString(s) {
		return Invalidf("%s is not valid UTF-8", what)
	}
	for i, r := range s {
		if r < 0x20 || r == 0x7f {
			return Invalidf("%s: control character at byte %d", what, i)
		}
	}
	return nil
}

// Validate checks every part of a key that a caller sent.
func (k Key) Validate() error {
	if err := ValidateTenant(k.Tenant); err != nil {
		return err
	}
	if err := ValidateNamespace(k.Namespace); err != nil {
		return err
	}
	return ValidateID(k.ID)
}
