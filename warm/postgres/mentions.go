package postgres

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// subject is what an erasure looks for: what its selector takes, and keys that
// it takes for what they once were.
type subject struct {
	selector warm.Selector
	keys     map[tiering.Key]struct{}
	ids      map[string]struct{}
}

func newSubject(selector warm.Selector) *subject {
	return &subject{selector: selector, keys: map[tiering.Key]struct{}{}, ids: map[string]struct{}{}}
}

func (s *subject) add(k tiering.Key) {
	s.keys[k] = struct{}{}
	s.ids[k.ID] = struct{}{}
}

// has reports whether the key of that owner is the subject's.
func (s *subject) has(key tiering.Key, user string) bool {
	if s.selector.Takes(key, user) {
		return true
	}
	_, ok := s.keys[key]
	return ok
}

// said reports whether an answer names the subject. An answer is the router's,
// and may tell of keys that its heads do not; any string in it counts, in
// whatever place: a replay too few costs less than a name that stays.
func (s *subject) said(answer []byte) bool {
	if len(answer) == 0 {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	for {
		tok, err := d.Token()
		if err != nil {
			// The end, or not JSON: then by its bytes.
			sel := s.selector
			word := []byte(sel.ID + sel.Prefix + sel.User)
			return len(word) > 0 && !json.Valid(answer) && bytes.Contains(answer, word)
		}
		if word, ok := tok.(string); ok && s.named(word) {
			return true
		}
	}
}

func (s *subject) named(word string) bool {
	switch sel := s.selector; {
	case sel.User != "" && word == sel.User, sel.ID != "" && word == sel.ID, sel.Prefix != "" && strings.HasPrefix(word, sel.Prefix):
		return true
	}
	_, ok := s.ids[word]
	return ok
}

func (s *subject) inResult(r *warm.Result) bool {
	return s.has(r.Head.Key, r.Head.User) || s.said(r.Answer)
}

func (s *subject) inResults(all [][]warm.Result) bool {
	for i := range all {
		for j := range all[i] {
			if s.inResult(&all[i][j]) {
				return true
			}
		}
	}
	return false
}

// inStored looks into a request's result. What can not be read at all counts
// as a mention.
func (s *subject) inStored(b []byte) bool {
	all, err := decodeStored(b)
	return err != nil || s.inResults(all)
}

// blank encodes a batch's results with nothing but the outcome of those that
// mention the subject. Done results of others are told by the changes that
// stay, in their order; one that was blanked before has no change.
func (s *subject) blank(all [][]warm.Result) []byte {
	var e encoder
	e.byte(formResults)
	e.uint(uint64(len(all)))
	for _, rows := range all {
		e.uint(uint64(len(rows)))
		for _, r := range rows {
			if s.inResult(&r) {
				r = warm.Result{Status: r.Status, Created: r.Created}
			}
			e.result(r, r.Head.Key != tiering.Key{})
		}
	}
	return e.b
}

// clean takes the mentions of sub out of a window of batches and of one of
// requests. atEnd says that there is nothing behind. A batch's changes stay,
// without any if need be, so that the feed's positions have no gaps. When a key
// turns out to be the subject's that was not known, the look begins anew.
func (t *txn) clean(o *order, sub *subject) (cleaned, atEnd bool, err error) {
	met := map[tiering.Key]struct{}{}
	var seqs []int64
	var changes, results [][]byte
	n, err := t.batches(&o.batches, func(seq int64, all []made, stored []byte) error {
		if stored == nil {
			return nil // a batch that never was
		}
		answers, err := decodeResults(stored, all)
		if err != nil {
			return err
		}
		kept := make([]warm.FeedChange, 0, len(all))
		for i := range all {
			c := &all[i].FeedChange
			if !sub.has(c.Key, c.User) {
				kept = append(kept, *c)
			} else if _, known := sub.keys[c.Key]; !known && sub.selector.User != "" {
				met[c.Key] = struct{}{}
			}
		}
		if len(kept) == len(all) && !sub.inResults(answers) {
			return nil
		}
		var packed []byte
		if all != nil {
			packed = encodeChanges(kept)
		}
		seqs, changes, results = append(seqs, seq), append(changes, packed), append(results, sub.blank(answers))
		return nil
	})
	if err != nil {
		return false, false, err
	}
	if seqs != nil {
		if _, err := t.exec(`UPDATE batch b SET changes = t.changes, results = t.results FROM unnest($1::bigint[], $2::bytea[], $3::bytea[]) t(seq, changes, results) WHERE b.seq = t.seq`,
			seqs, changes, results); err != nil {
			return false, false, err
		}
	}
	asked, dropped, err := t.cleanRequests(o, sub)
	if err != nil {
		return false, false, err
	}
	cleaned, atEnd = seqs != nil || dropped, n < eraseWindow && asked < eraseWindow
	if len(met) > 0 {
		o.batches, o.requests = 0, 0
		return cleaned, false, t.collect(o, met)
	}
	return cleaned, atEnd, nil
}

// cleanRequests drops the requests whose results mention sub: such a request,
// sent once more, is a new one.
func (t *txn) cleanRequests(o *order, sub *subject) (n int, dropped bool, err error) {
	var todo []int64
	err = t.each(`SELECT seq, tenant, result FROM request WHERE seq > $1 ORDER BY seq LIMIT $2`, []any{o.requests, eraseWindow}, func(row pgx.Rows) error {
		var tenant string
		var result []byte
		if err := row.Scan(&o.requests, &tenant, &result); err != nil {
			return err
		}
		n++
		if tenant == sub.selector.Tenant && sub.inStored(result) {
			todo = append(todo, o.requests)
		}
		return nil
	})
	if err != nil || todo == nil {
		return n, false, err
	}
	_, err = t.exec(`DELETE FROM request WHERE seq = ANY($1::bigint[])`, todo)
	return n, true, err
}
