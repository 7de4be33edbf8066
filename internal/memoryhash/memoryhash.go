// Package memoryhash makes the numbers by which PostgreSQL finds memories:
// warm/postgres stores them, vector/pgvector asks for them, and the index only
// answers where both compute the same.
package memoryhash

// Kind says what a memory has. Attributes are hashed beside its terms, so that one
// index finds by either; the kind tells them apart.
type Kind byte

// The kinds. Their numbers are stored, hashed.
const (
	Term    Kind = 0
	User    Kind = 1
	Agent   Kind = 2
	App     Kind = 3
	Session Kind = 4
	Type    Kind = 5
)

// Of is the hash of something that memories of the namespace numbered nid have:
// FNV-1a, 64 bits, with the finalizer of MurmurHash3.
func Of(nid int32, kind Kind, text string) int64 {
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for i := range 4 {
		add(byte(nid >> (8 * i)))
	}
	add(byte(kind))
	for i := range len(text) {
		add(text[i])
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int64(h ^ h>>33)
}
