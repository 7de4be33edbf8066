package cold

import (
	"strings"

	"github.com/tierd/tierd/tiering"
)

// CheckName refuses, as invalid, a name that is not made of [a-z0-9./_-], has
// an empty or dot segment or one over 255 bytes, or is over 1000 bytes long.
// Every driver calls it, so that no bucket takes what another would not.
func CheckName(name string) error {
	if name == "" || len(name) > 1000 {
		return tiering.Invalidf("object name is %d bytes long: use 1 to 1000", len(name))
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." || len(segment) > 255 {
			return tiering.Invalidf("object name %q: segment %q is empty, a dot segment, or over 255 bytes", name, segment)
		}
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("./_-", rune(c)) {
			return tiering.Invalidf("object name %q: byte %d is not one of a-z 0-9 . / _ -", name, i)
		}
	}
	return nil
}
