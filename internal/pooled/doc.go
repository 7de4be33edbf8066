// Package pooled holds the tests of what runs behind a pooler that hands out a
// connection of PostgreSQL for a transaction at a time.
package pooled
