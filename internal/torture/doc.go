// Package torture runs campaigns against whole nodes: it breaks what they stand
// on, again and again, and accounts for everything that was acknowledged. Each
// campaign has a short form, which every run of the tests includes, and a long
// one (make torture); each follows from a seed, and each is shown to find what a
// broken build loses.
package torture
