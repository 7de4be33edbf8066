package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
)

// byHand is a store as one writes it without tierd: a cache before a database,
// with no history, no condition and no version.
type byHand interface {
	// write sets the cache, then the database.
	write(ctx context.Context, id string, doc []byte) error
	// get reads what the cache has.
	get(ctx context.Context, id string) error
	// row reads the database alone.
	row(ctx context.Context, id string) ([]byte, error)
	// miss reads what the cache does not have, and fills it.
	miss(ctx context.Context, id string) error
	// forget empties the cache of keys 0..keys-1.
	forget(ctx context.Context, keys int) error
}

// inProcess is byHand without a server: a map under a lock, and a table in
// SQLite, one row a transaction, flushed.
type inProcess struct {
	mu    sync.RWMutex
	cache map[string][]byte

	writer, readers *sql.DB
}

// inProcessReaders is how many connections read.
const inProcessReaders = 4

func (b *bench) openInProcess(ctx context.Context, folder string) (*inProcess, error) {
	place := "file:" + filepath.Join(folder, "byhand.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)"
	p := &inProcess{cache: map[string][]byte{}}
	for to, connections := range map[**sql.DB]int{&p.writer: 1, &p.readers: inProcessReaders} {
		db, err := sql.Open("sqlite", place)
		if err != nil {
			return nil, fmt.Errorf("open a table by hand: %w", err)
		}
		b.later(func(context.Context) error { return db.Close() })
		db.SetMaxOpenConns(connections)
		*to = db
	}
	_, err := p.writer.ExecContext(ctx, `CREATE TABLE st (id TEXT PRIMARY KEY, ver INTEGER NOT NULL, doc TEXT NOT NULL, updated TEXT NOT NULL)`)
	return p, err
}

func (p *inProcess) set(id string, doc []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cache[id] = doc
}

func (p *inProcess) has(id string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.cache[id] != nil
}

func (p *inProcess) write(ctx context.Context, id string, doc []byte) error {
	p.set(id, doc)
	_, err := p.writer.ExecContext(ctx, `INSERT INTO st VALUES (?, 1, ?, datetime('now'))
		ON CONFLICT (id) DO UPDATE SET ver = ver + 1, doc = excluded.doc, updated = datetime('now')`, id, string(doc))
	return err
}

func (p *inProcess) get(_ context.Context, id string) error {
	if !p.has(id) {
		return errors.New("the map has lost a document")
	}
	return nil
}

func (p *inProcess) row(ctx context.Context, id string) (doc []byte, err error) {
	err = p.readers.QueryRowContext(ctx, `SELECT doc FROM st WHERE id = ?`, id).Scan(&doc)
	return doc, err
}

func (p *inProcess) miss(ctx context.Context, id string) error {
	if p.has(id) {
		return nil
	}
	doc, err := p.row(ctx, id)
	if err == nil {
		p.set(id, doc)
	}
	return err
}

func (p *inProcess) forget(context.Context, int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.cache, func(string, []byte) bool { return true })
	return nil
}
