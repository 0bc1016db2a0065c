package nearest

import "strings"

// Of returns the known word that differs from got by the fewest errors, in any case: at most two, and fewer than half of
// them. It returns "" if there is none.
func Of(got string, known []string) string {
	best, dist := "", min(3, (len(got)+1)/2)
	for _, k := range known {
		if d := distance(strings.ToLower(got), strings.ToLower(k)); d < dist {
			best, dist = k, d
		}
	}
	return best
}

// distance is the optimal string alignment distance: Levenshtein's, where two neighbours that changed places are one error.
func distance(a, b string) int {
	before, above := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}
