package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// etag is the entity tag of a version: its number in quotes.
func etag(version int64) string {
	return string(appendETag(make([]byte, 0, 24), version))
}

func appendETag(b []byte, version int64) []byte {
	return append(strconv.AppendInt(append(b, '"'), version, 10), '"')
}

// guardHeaders are the request headers without which a write may do more than
// its caller wants, in Go's canonical form.
var guardHeaders = [...]string{"If-Match", "If-None-Match", "Idempotency-Key", "Tierd-Fence"}

// refuseGuards refuses a guard that the operation does not take: ignored, it
// would let through the very write that it was sent against. A read has nothing
// to do twice, and one that HTTP could have answered by 304 is answered whole.
func (c *call) refuseGuards() error {
	for _, name := range guardHeaders {
		if len(c.r.Header[name]) == 0 || c.op.takes(name) || c.op.readOnly() && (name == "If-None-Match" || name == "Idempotency-Key") {
			continue
		}
		return tiering.Errorf(tiering.CodeUnsupported, "%s %s takes no %s, so nothing was done: %s", c.op.method, c.op.path, name, c.op.guardNames())
	}
	return nil
}

// readOnly reports whether the operation changes nothing.
func (o *operation) readOnly() bool {
	return o.reads || o.method == http.MethodGet || o.method == http.MethodHead
}

// guardNames says for people what guards the operation takes, and what to do in
// place of another one.
func (o *operation) guardNames() string {
	var taken []string
	for _, name := range guardHeaders {
		if o.takes(name) {
			taken = append(taken, name)
		}
	}
	out := "it takes none"
	if len(taken) > 0 {
		out = "it takes " + strings.Join(taken, ", ")
	}
	if o.instead != "" {
		out += "; " + o.instead
	}
	return out
}

// writeCondition reads If-Match and If-None-Match of a write.
func writeCondition(h http.Header) (tiering.Condition, error) {
	match, none := h.Values("If-Match"), h.Values("If-None-Match")
	switch {
	case len(match) == 0 && len(none) == 0:
		return tiering.Condition{}, nil
	case len(match) > 0 && len(none) > 0:
		return tiering.Condition{}, tiering.Invalidf("If-Match and If-None-Match together: send one")
	case len(none) > 0:
		if len(none) != 1 || strings.TrimSpace(none[0]) != "*" {
			return tiering.Condition{}, tiering.Invalidf("If-None-Match: %s: on a write it is *, which creates", shown(strings.Join(none, ", ")))
		}
		return tiering.IfAbsent(), nil
	}
	v := strings.TrimSpace(strings.Join(match, ", "))
	if v == "*" {
		return tiering.IfExists(), nil
	}
	version, ok := parseTag(v)
	if !ok {
		return tiering.Condition{}, tiering.Invalidf(`If-Match: %s: want one version in quotes such as "3", or *`, shown(v))
	}
	return tiering.IfVersion(version), nil
}

// parseTag reads a version as an entity tag: "3", 3, or W/"3" as proxies that
// compress write it. A version names exact bytes, so the weak mark means nothing.
func parseTag(s string) (int64, bool) {
	s, weak := strings.CutPrefix(s, "W/")
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return parseVersion(s[1 : len(s)-1])
	}
	if weak {
		return 0, false
	}
	return parseVersion(s)
}

// tagList is the If-Match or If-None-Match of a read.
type tagList struct {
	given    bool
	any      bool
	versions []int64
}

// readTags reads a list of entity tags. Tags of other servers are legal and
// match nothing; what is no tag at all is refused.
func readTags(h http.Header, name string) (tagList, error) {
	values := h.Values(name)
	if len(values) == 0 {
		return tagList{}, nil
	}
	list := tagList{given: true}
	s := strings.TrimSpace(strings.Join(values, ","))
	if s == "*" {
		list.any = true
		return list, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if v, ok := parseTag(part); ok {
			list.versions = append(list.versions, v)
			continue
		}
		if !foreignTag(part) {
			return tagList{}, tiering.Invalidf(`%s: %s: want entity tags such as "3", or *`, name, shown(s))
		}
	}
	return list, nil
}

// shown is a header's value in an error, as it was sent: quoted, the quotes of
// an entity tag would be escaped.
func shown(v string) string {
	if v == "" {
		return "(empty)"
	}
	return clip(v)
}

// foreignTag reports whether s has the form of an entity tag.
func foreignTag(s string) bool {
	s = strings.TrimPrefix(s, "W/")
	return len(s) > 2 && s[0] == '"' && s[len(s)-1] == '"' && !strings.ContainsAny(s[1:len(s)-1], "\" ")
}

// matches reports whether the list names version.
func (l tagList) matches(version int64) bool {
	return l.any || slices.Contains(l.versions, version)
}

// idempotencyKey reads the header, "" when it is absent.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	k := values[0]
	if len(values) > 1 || k == "" || len(k) > 255 {
		return "", tiering.Invalidf("Idempotency-Key: want one header of 1 to 255 bytes")
	}
	for i := range len(k) {
		if k[i] < 0x20 || k[i] > 0x7e {
			return "", tiering.Invalidf("Idempotency-Key: byte %d is not printable ASCII", i)
		}
	}
	return k, nil
}

// writeOptions reads what guards a write: condition, idempotency key, ttl.
func (c *call) writeOptions() (tiering.WriteOptions, error) {
	cond, err := writeCondition(c.r.Header)
	if err != nil {
		return tiering.WriteOptions{}, err
	}
	key, err := idempotencyKey(c.r.Header)
	if err != nil {
		return tiering.WriteOptions{}, err
	}
	fence, err := c.fence()
	if err != nil {
		return tiering.WriteOptions{}, err
	}
	o := tiering.WriteOptions{If: cond, IdempotencyKey: key, Fence: fence}
	if c.op.knows("ttl") {
		o.TTL = c.q.ttl("ttl")
	}
	return o, c.q.err
}
