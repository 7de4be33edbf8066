package postgres

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// wire collects the parameters of one statement in PostgreSQL's binary form.
// pgx encodes an array through an interface an element, which costs a batch of
// puts more than everything else that this side does for it. The zero value
// works; values are valid until the next parameter is added.
type wire struct {
	buf  []byte
	ends []int // where each parameter ends; -1 for NULL
}

func (w *wire) end()           { w.ends = append(w.ends, len(w.buf)) }
func (w *wire) null()          { w.ends = append(w.ends, -1) }
func (w *wire) int8(v int64)   { w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(v)); w.end() }
func (w *wire) int4(v int32)   { w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(v)); w.end() }
func (w *wire) int2(v int16)   { w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(v)); w.end() }
func (w *wire) bytes(v []byte) { w.buf = append(w.buf, v...); w.end() }
func (w *wire) text(v string)  { w.buf = append(w.buf, v...); w.end() }

func (w *wire) maybeInt8(v *int64) {
	if v == nil {
		w.null()
		return
	}
	w.int8(*v)
}

// list begins an array of n elements, one dimension counted from 1; end
// closes it.
func (w *wire) list(oid uint32, n int) {
	dimensions := uint32(1)
	if n == 0 {
		dimensions = 0
	}
	w.buf = binary.BigEndian.AppendUint32(w.buf, dimensions)
	w.buf = binary.BigEndian.AppendUint32(w.buf, 1) // NULLs may come
	w.buf = binary.BigEndian.AppendUint32(w.buf, oid)
	if n > 0 {
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(n))
		w.buf = binary.BigEndian.AppendUint32(w.buf, 1)
	}
}

func (w *wire) element(size int) { w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(size)) }

// int8s, int4s, int2s, byteas and texts add an array of which at gives the
// elements; of byteas and texts a nil one is NULL.
func (w *wire) int8s(n int, at func(int) int64) {
	w.list(pgtype.Int8OID, n)
	for i := range n {
		w.element(8)
		w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(at(i)))
	}
	w.end()
}

func (w *wire) int4s(n int, at func(int) int32) {
	w.list(pgtype.Int4OID, n)
	for i := range n {
		w.element(4)
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(at(i)))
	}
	w.end()
}

func (w *wire) int2s(n int, at func(int) int16) {
	w.list(pgtype.Int2OID, n)
	for i := range n {
		w.element(2)
		w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(at(i)))
	}
	w.end()
}

func (w *wire) byteas(n int, at func(int) []byte) { w.strings(pgtype.ByteaOID, n, at) }
func (w *wire) texts(n int, at func(int) []byte)  { w.strings(pgtype.TextOID, n, at) }

func (w *wire) strings(oid uint32, n int, at func(int) []byte) {
	w.list(oid, n)
	for i := range n {
		v := at(i)
		if v == nil {
			w.buf = append(w.buf, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		w.element(len(v))
		w.buf = append(w.buf, v...)
	}
	w.end()
}

// values are the parameters as pgconn takes them.
func (w *wire) values() [][]byte {
	out := make([][]byte, len(w.ends))
	from := 0
	for i, end := range w.ends {
		if end >= 0 {
			out[i] = w.buf[from:end:end]
			if out[i] == nil {
				out[i] = []byte{}
			}
			from = end
		}
	}
	return out
}

// call is a statement with its parameters. name is what a connection knows it
// by once it is prepared.
type call struct {
	name, sql string
	args      [][]byte
}

// inBinary says that all parameters, or all results, are in binary form.
var inBinary = [...]int16{1}

// prepare makes a connection know calls, where it may know any.
func (s *Store) prepare(ctx context.Context, c *pgx.Conn, calls []call) error {
	if s.pooled {
		return nil
	}
	for _, q := range calls {
		if _, err := c.Prepare(ctx, q.name, q.sql); err != nil {
			return err
		}
	}
	return nil
}

// room makes room for the messages behind it. A connection drops its buffer when it
// has sent more than keptBuffer, and makes the next by doubling.
type room struct{ buf []byte }

// keptBuffer is more than what a connection sends and keeps its buffer.
const keptBuffer = 4 << 10

func (*room) Frontend()                           {}
func (*room) Decode([]byte) error                 { return nil }
func (r *room) Encode(dst []byte) ([]byte, error) { return append(r.buf, dst...), nil }

// makeRoom has a connection use a buffer of the store's for calls: nil where they
// are small. It is the store's again once they were sent.
func (s *Store) makeRoom(c *pgx.Conn, calls []call) []byte {
	args, rest := 0, 0
	for i := range calls {
		rest += 256 + len(calls[i].name) + 4*len(calls[i].args)
		for _, arg := range calls[i].args {
			args += len(arg)
		}
	}
	if args <= keptBuffer {
		return nil
	}
	buf := s.buffers.Take(args + rest)
	c.PgConn().Frontend().Send(&room{buf})
	return buf
}

// together sends prepared calls in one go, as one implicit transaction, and hands the
// rows of the last to scan, which must not keep what it gets. The error is the
// first one that came.
func (s *Store) together(ctx context.Context, c *pgx.Conn, calls []call, scan func(row [][]byte) error) (err error) {
	p := c.PgConn().StartPipeline(ctx)
	defer func() {
		if end := p.Close(); err == nil {
			err = end
		}
	}()
	sent := s.makeRoom(c, calls)
	for _, q := range calls {
		if !s.pooled {
			p.SendQueryPrepared(q.name, q.args, inBinary[:], inBinary[:])
		} else {
			p.SendQueryParams(q.sql, q.args, nil, inBinary[:], inBinary[:])
		}
	}
	if err := p.Sync(); err != nil {
		return err
	}
	s.buffers.Give(sent)
	for i := range calls {
		result, err := p.GetResults()
		if err != nil {
			return err
		}
		rows, ok := result.(*pgconn.ResultReader)
		if !ok {
			return errors.New("the server did not answer a statement")
		}
		for rows.NextRow() {
			if i < len(calls)-1 {
				continue
			}
			if err := scan(rows.Values()); err != nil {
				return err
			}
		}
		if _, err := rows.Close(); err != nil {
			return err
		}
	}
	// The transaction has ended when its Sync is answered, and not before.
	_, err = p.GetResults()
	return err
}
