// Package client dials a tierd node over HTTP. *Client satisfies
// tiering.Service, as an embedded node does, so a program moves from one to
// the other by changing the line that opens it; the typed verbs of package
// tiering (GetAs, Create, Update, Merge, Edit) work on both.
//
// The client does three things that a plain HTTP caller has to do by hand:
//
//   - Reading your own writes. It remembers the version of its own last write
//     of a key and asks for nothing older on a plain get.
//   - Retrying. Reads are tried again when the node or the network failed, and
//     so are writes, because each carries an Idempotency-Key: the node answers
//     the first try's result to the second.
//   - Resuming. A watch that lost its connection goes on behind the last event
//     it saw, without a gap or a repeat; Events is one as an iterator.
//
// It imports package tiering and the standard library only.
package client
