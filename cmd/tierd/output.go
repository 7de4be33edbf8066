package main

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tierd/tierd/tiering"
)

// printf writes to stdout.
func (p *process) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(p.stdout, format, args...)
	return err
}

// notef writes a remark to stderr, where it does not mix with output. With
// --json there are none. A remark that cannot be written is no failure.
func (p *process) notef(format string, args ...any) {
	if !p.json {
		_, _ = fmt.Fprintf(p.stderr, "tierd: "+format+"\n", args...)
	}
}

// printJSON writes one line of JSON to stdout.
func (p *process) printJSON(v any) error { return encodeJSON(p.stdout, v, false) }

// printBody writes JSON bytes as they are, and a line end.
func (p *process) printBody(body []byte) error {
	_, err := p.stdout.Write(append(bytes.Clone(body), '\n'))
	return err
}

// cells keeps texts of several lines, such as two errors in one, in their row.
func cells(row []string) []string {
	out := make([]string, len(row))
	for i, text := range row {
		out[i] = strings.ReplaceAll(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; "), "\t", " ")
	}
	return out
}

// table aligns rows under a header of column names.
func (p *process) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		// The last cell is not padded, and trailing empty cells leave no blanks.
		if _, err := fmt.Fprintln(w, strings.TrimRight(strings.Join(cells(row), "\t"), "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// stamp writes a time, "-" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// dash writes "-" for an empty cell.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printReceipt says what a write did.
func (p *process) printReceipt(done string, r *tiering.Receipt) error {
	for _, w := range r.Warnings {
		p.notef("warning: %s", warning(w))
	}
	if p.json {
		return p.printJSON(r)
	}
	line := fmt.Sprintf("%s %s/%s version %d", done, r.Namespace, r.ID, r.Version)
	if !r.ExpiresAt.IsZero() {
		line += ", expires " + stamp(r.ExpiresAt)
	}
	if r.Replayed {
		line += " (replayed: this idempotency key was used before)"
	}
	return p.printf("%s\n", line)
}

func warning(w string) string {
	if w == "size" {
		return "the document nears its size limit"
	}
	return w
}

// pairs prints names and values, aligned.
func (p *process) pairs(rows [][]string) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(cells(row), "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}
