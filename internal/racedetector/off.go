//go:build !race

// Package racedetector tells tests whether the race detector runs. It multiplies what
// they cost: the longest of them run without it, and bounds of time are wider.
package racedetector

// On: the race detector runs.
const On = false
