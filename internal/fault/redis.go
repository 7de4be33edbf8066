package fault

import (
	"bufio"
	"errors"
	"strconv"
	"strings"
)

// Redis is RESP, versions 2 and 3. A request is a command; its text is the name of
// it, in capitals. A push that nobody asked for passes.
func Redis() Conversation { return redisTalk{} }

type redisTalk struct{}

func (redisTalk) Request(in *bufio.Reader) (Message, error) {
	data, err := respValue(in, nil)
	m := Message{Data: data}
	// *n CRLF $n CRLF name CRLF: the name is the third line.
	if lines := strings.SplitN(string(data[:min(len(data), 128)]), "\r\n", 4); len(lines) > 3 {
		m.Text = strings.ToUpper(lines[2])
	}
	return m, err
}

func (redisTalk) Reply(in *bufio.Reader, _ func() string) (Message, error) {
	first, err := in.Peek(1)
	if err != nil {
		return Message{}, err
	}
	push := first[0] == '>'
	data, err := respValue(in, nil)
	return Message{Data: data, Unasked: push}, err
}

// respValue reads one value, with all it holds, onto data.
func respValue(in *bufio.Reader, data []byte) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	data = append(data, line...)
	if err != nil {
		return data, err
	}
	if len(line) < 3 {
		return data, errors.New("not a value of RESP")
	}
	kind, rest := line[0], strings.TrimSpace(string(line[1:]))
	switch kind {
	case '$', '!', '=':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return data, err
		}
		return take(in, data, int64(n)+2)
	case '*', '~', '>', '%', '|':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return data, err
		}
		if kind == '%' || kind == '|' {
			n *= 2
		}
		if kind == '|' {
			n++ // attributes stand before the value they belong to
		}
		for range n {
			if data, err = respValue(in, data); err != nil {
				return data, err
			}
		}
	}
	return data, nil
}
