package fault

import (
	"bufio"
	"bytes"
	"errors"
	"strconv"
)

// maxReplyDepth bounds how deep a reply may nest.
const maxReplyDepth = 32

// Redis is the protocol of Redis, versions 2 and 3 (https://redis.io/docs/latest/develop/reference/protocol-spec/),
// without TLS. A request is one command, also within a pipeline; its text is the
// command's name and its first argument.
func Redis() Conversation { return redisTalk{} }

type redisTalk struct{}

func (redisTalk) Request(in *bufio.Reader) (m Message, err error) {
	line, err := redisLine(in, &m.Data)
	if err != nil {
		return m, err
	}
	n, err := redisCount(line, '*')
	if err != nil {
		return m, err
	}
	for i := range n {
		if line, err = redisLine(in, &m.Data); err != nil {
			return m, err
		}
		size, err := redisCount(line, '$')
		if err != nil || size < 0 {
			return m, errors.Join(err, errors.New("not a command of Redis' protocol"))
		}
		from := len(m.Data)
		if m.Data, err = take(in, m.Data, size+2); err != nil {
			return m, err
		}
		switch arg := m.Data[from : from+int(size)]; i {
		case 0:
			m.Text = string(arg)
		case 1:
			m.Text += " " + string(arg)
		}
	}
	return m, nil
}

func (redisTalk) Reply(in *bufio.Reader, _ func() string) (m Message, err error) {
	kind, err := in.Peek(1)
	if err != nil {
		return m, err
	}
	m.Unasked = kind[0] == '>' // a push
	return m, redisReply(in, &m.Data, maxReplyDepth)
}

// redisReply reads one reply onto data.
func redisReply(in *bufio.Reader, data *[]byte, depth int) error {
	line, err := redisLine(in, data)
	if err != nil {
		return err
	}
	if depth == 0 {
		return errors.New("a reply of Redis that nests too deep")
	}
	var parts int64
	switch kind := line[0]; kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return nil
	case '$', '!', '=':
		n, err := redisCount(line, kind)
		if err != nil || n < 0 {
			return err
		}
		*data, err = take(in, *data, n+2)
		return err
	case '*', '~', '>':
		parts, err = redisCount(line, kind)
	case '%':
		parts, err = redisCount(line, kind)
		parts *= 2
	case '|': // attributes, and then the reply
		parts, err = redisCount(line, kind)
		parts = 2*parts + 1
	default:
		return errors.New("not a reply of Redis")
	}
	for i := int64(0); i < parts && err == nil; i++ {
		err = redisReply(in, data, depth-1)
	}
	return err
}

// redisLine reads a line onto data, and returns it without its end. It has a byte at
// least.
func redisLine(in *bufio.Reader, data *[]byte) ([]byte, error) {
	part, err := in.ReadSlice('\n')
	*data = append(*data, part...)
	if err != nil {
		return nil, err
	}
	line, ok := bytes.CutSuffix(part, []byte("\r\n"))
	if !ok || len(line) == 0 {
		return nil, errors.New("not a line of Redis' protocol")
	}
	return line, nil
}

// redisCount is the number behind a line's kind; -1 is for nothing.
func redisCount(line []byte, kind byte) (int64, error) {
	n, err := strconv.ParseInt(string(line[1:]), 10, 32)
	if err == nil && (line[0] != kind || n < -1 || n > 1<<29) {
		err = errors.New("not a count of Redis' protocol")
	}
	return n, err
}
