package config

import "fmt"

// DidYouMean returns ` (did you mean "x"?)` for the closest of known, "" when
// none is close.
func DidYouMean(word string, known []string) string { return didYouMean(word, known, "") }

// didYouMean returns ` (did you mean "x"?)` for the closest of known, with
// prefix before it, "" when none is close.
func didYouMean(word string, known []string, prefix string) string {
	best, distance := "", len(word)/2+1
	for _, k := range known {
		if d := editDistance(word, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", prefix+best)
}

// editDistance is Levenshtein's: the least number of single-byte insertions,
// deletions and substitutions that turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
