// Package router is tierd's request path: it decides where bytes go and where
// they come from. A write is marked pending in hot, committed in warm together
// with the writes that arrived meanwhile, and then set in hot. A read asks hot,
// then warm, then cold, and fills what it missed under a lease.
//
// What must hold is listed in ARCHITECTURE.md (C1 to C10).
package router
