//go:build race

package lifecycle_test

// raceDetector: it multiplies what a sequence of the machine costs.
const raceDetector = true
