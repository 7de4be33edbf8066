package column

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// Place is where a walk over version rows has come to, by a key's number and a
// version. The zero value is the start.
type Place struct{ Key, Version int64 }

// String is the cursor of a place.
func (p Place) String() string { return fmt.Sprintf("%d.%d", p.Key, p.Version) }

// ParsePlace reads a cursor, "" for the start. Errors are invalid.
func ParsePlace(cursor string) (p Place, err error) {
	if cursor == "" {
		return p, nil
	}
	key, version, _ := strings.Cut(cursor, ".")
	if p.Key, err = strconv.ParseInt(key, 10, 64); err == nil {
		p.Version, err = strconv.ParseInt(version, 10, 64)
	}
	if err != nil {
		return p, tiering.Invalidf("%q is not a cursor of a walk over versions", cursor)
	}
	return p, nil
}
