package main

import (
	"bufio"
	"errors"
	"io"
)

// maxImportLine bounds a line: a body of 8 MiB in the widest spelling that JSON
// has for it, and what stands around it.
const maxImportLine = 64 << 20

var errLineTooLong = errors.New("is longer than 64 MiB")

// lineReader reads lines and knows their numbers. A line that is too long is
// passed over, so that reading can go on behind it.
type lineReader struct {
	r      *bufio.Reader
	most   int
	number int64 // of the last line, from 1
	size   int64 // of the last line, with its end, in bytes
}

func newLineReader(r io.Reader, most int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), most: most}
}

// next returns a line without its end, io.EOF behind the last one. The bytes
// are the caller's.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	l.size = 0
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		l.size += int64(len(part))
		tooLong = tooLong || len(line)+len(part) > l.most
		if !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || l.size == 0):
			return nil, err
		}
		l.number++
		if tooLong {
			return nil, errLineTooLong
		}
		return line, nil
	}
}
