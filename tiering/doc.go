// Package tiering is the vocabulary of tierd: keys, documents, versions,
// policies, errors, and the interfaces that an embedded node and a remote
// client both satisfy. It imports the standard library only, so a program that
// dials tierd pulls in no database driver.
package tiering
