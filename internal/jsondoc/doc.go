// Package jsondoc works on JSON documents as bytes. Nothing is decoded through
// `any`: the order of members, the text of numbers and the escapes of strings
// stay as they were wherever an operation did not touch them.
//
// Compact is the gate: it validates once, and everything else takes documents
// that passed it. Given other bytes the functions here neither panic nor run
// on for ever, but what they answer means nothing.
package jsondoc
