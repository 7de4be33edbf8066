package fault

import (
	"bufio"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
)

// The first numbers of packets that have no type byte (PostgreSQL's documentation
// of its frontend/backend protocol, "Message Formats").
const (
	pgCancel = 80877102
	pgSSL    = 80877103
	pgGSS    = 80877104
)

// Postgres is PostgreSQL's protocol, version 3, without TLS. A request is what the
// client sends until a Sync or simple query; its text is the SQL of what it
// executes, statements prepared before included. A reply ends with
// ReadyForQuery.
func Postgres() Conversation {
	return &pgTalk{statements: map[string]string{}}
}

type pgTalk struct {
	started    bool // the packets without a type byte are over
	statements map[string]string

	mu     sync.Mutex
	offers int // one-byte answers to come, to "TLS?"
}

func (t *pgTalk) Request(in *bufio.Reader) (Message, error) {
	if !t.started {
		return t.startup(in)
	}
	var m Message
	var text []string
	for {
		kind, packet, err := pgPacket(in)
		m.Data = append(m.Data, packet...)
		if err != nil {
			return m, err
		}
		body := packet[5:]
		switch kind {
		case 'p', 'X', 'd', 'c', 'f': // password, goodbye, parts of a copy
			m.Unasked = true
			return m, nil
		case 'P':
			name, rest := cString(body)
			sql, _ := cString(rest)
			t.statements[name] = sql
			text = append(text, sql)
		case 'B':
			_, rest := cString(body)
			name, _ := cString(rest)
			if sql := t.statements[name]; len(text) == 0 || text[len(text)-1] != sql {
				text = append(text, sql)
			}
		case 'Q':
			sql, _ := cString(body)
			text = append(text, sql)
		}
		if kind == 'Q' || kind == 'S' {
			m.Text = strings.Join(text, "; ")
			return m, nil
		}
	}
}

// startup reads a packet without a type byte.
func (t *pgTalk) startup(in *bufio.Reader) (Message, error) {
	head, err := in.Peek(8)
	if err != nil {
		return Message{}, err
	}
	size, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
	if size < 8 || size > 1<<20 {
		return Message{}, errors.New("not a startup packet")
	}
	m := Message{Text: "startup"}
	if m.Data, err = take(in, nil, int64(size)); err != nil {
		return m, err
	}
	switch code {
	case pgCancel:
		m.Unasked = true
	case pgSSL, pgGSS:
		m.Unasked = true
		t.mu.Lock()
		t.offers++
		t.mu.Unlock()
	default:
		t.started = true
	}
	return m, nil
}

func (t *pgTalk) Reply(in *bufio.Reader, _ func() string) (Message, error) {
	var m Message
	for {
		if _, err := in.Peek(1); err != nil {
			return m, err
		}
		if t.offered() {
			b, err := in.ReadByte()
			return Message{Data: []byte{b}, Unasked: true}, err
		}
		kind, packet, err := pgPacket(in)
		m.Data = append(m.Data, packet...)
		if err != nil {
			return m, err
		}
		switch kind {
		case 'Z':
			return m, nil
		case 'R', 'G', 'W', 'A': // authentication, copies, notifications: nobody may wait for more
			m.Partial = true
			return m, nil
		}
	}
}

// offered reports, once, that the server's next byte answers "TLS?".
func (t *pgTalk) offered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.offers == 0 {
		return false
	}
	t.offers--
	return true
}

// pgPacket reads a packet with its type and length.
func pgPacket(in *bufio.Reader) (kind byte, packet []byte, err error) {
	head, err := in.Peek(5)
	if err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > 1<<30 {
		return 0, nil, errors.New("not a packet of PostgreSQL's protocol")
	}
	kind = head[0]
	packet, err = take(in, nil, 1+int64(size))
	return kind, packet, err
}

// cString cuts a string that ends with a zero byte.
func cString(b []byte) (s string, rest []byte) {
	s, after, _ := strings.Cut(string(b), "\x00")
	return s, []byte(after)
}

func containsAny(text string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}
