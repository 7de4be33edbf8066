package client

import (
	"container/list"
	"sync"
)

// recent is a bounded map that forgets the entry unused for longest. It is
// safe for concurrent use; a nil one holds nothing.
type recent[K comparable, V any] struct {
	mu    sync.Mutex
	max   int
	order *list.List // of *entry[K, V], latest first
	at    map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// entryOf is what an element of the list holds: the list knows any alone.
func entryOf[K comparable, V any](e *list.Element) *entry[K, V] {
	en, _ := e.Value.(*entry[K, V])
	return en
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{max: most, order: list.New(), at: make(map[K]*list.Element)}
}

// get returns the value of k.
func (r *recent[K, V]) get(k K) (v V, ok bool) {
	if r == nil {
		return v, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.at[k]
	if !ok {
		return v, false
	}
	r.order.MoveToFront(e)
	return entryOf[K, V](e).value, true
}

// set stores v under k, unless keep prefers the value that is there.
func (r *recent[K, V]) set(k K, v V, keep func(old V) bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.at[k]; ok {
		r.order.MoveToFront(e)
		if en := entryOf[K, V](e); keep == nil || !keep(en.value) {
			en.value = v
		}
		return
	}
	r.at[k] = r.order.PushFront(&entry[K, V]{key: k, value: v})
	if r.order.Len() > r.max {
		last := r.order.Back()
		r.order.Remove(last)
		delete(r.at, entryOf[K, V](last).key)
	}
}

// drop forgets k where drop agrees to its value.
func (r *recent[K, V]) drop(k K, agrees func(v V) bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.at[k]; ok && agrees(entryOf[K, V](e).value) {
		r.order.Remove(e)
		delete(r.at, k)
	}
}
