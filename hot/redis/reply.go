package redis

import (
	"errors"
	"strconv"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

var errReply = errors.New("redis: a script answered what it cannot answer")

// readDated reads {seconds, microseconds, what the key holds}.
func readDated(key tiering.Key, reply any) (hot.Lookup, error) {
	parts, _ := reply.([]any)
	if len(parts) < 2 {
		return hot.Lookup{}, errReply
	}
	seconds, err1 := strconv.ParseInt(text(parts[0]), 10, 64)
	micros, err2 := strconv.ParseInt(text(parts[1]), 10, 64)
	if err1 != nil || err2 != nil {
		return hot.Lookup{}, errReply
	}
	var found []byte
	if len(parts) > 2 {
		found = []byte(text(parts[2]))
	}
	st, err := decodeState(found, seconds*1_000_000+micros)
	if err != nil {
		return hot.Lookup{}, err
	}
	return st.lookup(key)
}

// text is a string reply, "" for none.
func text(reply any) string {
	s, _ := reply.(string)
	return s
}
