package router

import (
	"encoding/base64"
	"strconv"

	"github.com/tierd/tierd/tiering"
)

// The cursor of a history is opaque to callers: a letter, then the version
// that the page ended at.

func encodeVersionCursor(v int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("v" + strconv.FormatInt(v, 10)))
}

func decodeVersionCursor(c string) (int64, error) {
	if c == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(c)
	if err == nil && len(b) > 1 && b[0] == 'v' {
		if n, err := strconv.ParseInt(string(b[1:]), 10, 64); err == nil && n > 0 {
			return n, nil
		}
	}
	return 0, badCursor()
}

func badCursor() error {
	return tiering.Invalidf("the cursor is not one of this listing's: start again without it")
}
