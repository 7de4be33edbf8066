// Package archtest holds no code. Its tests keep the dependency directions of
// the module: which package may import which, which libraries stay in tests,
// and where logging is allowed. The same rules stand in .golangci.yml for
// editors; these run with every go test.
package archtest
