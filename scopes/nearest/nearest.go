package nearest

import "strings"

// Of returns the known word that differs from got in the fewest letters, in any case: at most two, and fewer than half of
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

// distance is the Levenshtein distance.
func distance(a, b string) int {
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
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
