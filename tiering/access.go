package tiering

import "time"

// APIKey is a key with its limits. The zero Scope means everything of the tenant.
type APIKey struct {
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"`
	Tenant    string    `json:"tenant,omitempty"`
	Scope     Scope     `json:"scope,omitzero"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Secret is the whole key, in the answer of CreateKey alone.
	Secret string `json:"secret,omitempty"`
}

// Verb is what a request does, for scopes.
type Verb string

// The verbs. Admin covers namespaces, keys, erase and operations; metrics reads
// the page of metrics and nothing else, which admin may too.
const (
	VerbRead   Verb = "read"
	VerbWrite  Verb = "write"
	VerbDelete Verb = "delete"
	VerbAdmin  Verb = "admin"

	VerbMetrics Verb = "metrics"
)

// Scope limits what a key may do. A nil list means no limit; one that is empty
// but not nil is refused when a key is made, because it might mean nothing too.
type Scope struct {
	Verbs      []Verb   `json:"verbs,omitzero"`
	Namespaces []string `json:"namespaces,omitzero"`
	Prefixes   []string `json:"prefixes,omitzero"` // of ids
	User       string   `json:"user,omitempty"`    // sees and makes this user's documents only
}

// Principal is who asks: the tenant, bound by the API key, and the key's scope.
type Principal struct {
	Tenant string
	KeyID  string // "": no key, and nothing to revoke
	Scope  Scope
	// ExpiresAt ends what the key has under way, such as a watch; zero: never.
	ExpiresAt time.Time
}
