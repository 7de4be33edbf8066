package sqlite

import "strings"

// rowsAtOnce is how many rows one statement adds: most of what a row of its own
// would cost is the statement.
const rowsAtOnce = 32

// rows adds many rows of one table in few statements.
type rows struct {
	t         *txn
	one, many string
	args      []any
	n         int
}

// rows begins; insert is a statement up to its VALUES, row the marks of one row.
func (t *txn) rows(insert, row string) *rows {
	return &rows{t: t, one: insert + row, many: insert + row + strings.Repeat(", "+row, rowsAtOnce-1)}
}

// add adds a row. The values are kept until they are flushed.
func (r *rows) add(values ...any) error {
	r.args = append(r.args, values...)
	if r.n++; r.n < rowsAtOnce {
		return nil
	}
	_, err := r.t.exec(r.many, r.args...)
	r.args, r.n = r.args[:0], 0
	return err
}

// flush adds the rows that are left, one by one: a statement is prepared once
// for all, and so of two lengths only.
func (r *rows) flush() error {
	if r.n == 0 {
		return nil
	}
	each := len(r.args) / r.n
	for ; r.n > 0; r.n-- {
		if _, err := r.t.exec(r.one, r.args[:each]...); err != nil {
			return err
		}
		r.args = r.args[each:]
	}
	return nil
}
