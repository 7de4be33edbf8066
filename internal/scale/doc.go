// Package scale measures what a million documents do to a daemon: to the time of
// its calls, its memory, its start, and its writers while it demotes them. A store
// of a tenth as many stands beside it, and the two take turns (make bench-scale).
package scale
