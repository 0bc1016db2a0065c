package config

import "strings"

// removed are the keys of earlier versions, each with an explanation.
var removed = map[string]string{"mcp_compat": "the metadata always contains the members that it added"}

// near suggests the known name that is closest to got.
func near(got string, known []string) string {
	if instead, was := removed[strings.TrimPrefix(strings.ToLower(got), "ebb_")]; was {
		return "it was removed: " + instead
	}
	best, dist := "", 3
	for _, k := range known {
		if d := distance(strings.ToLower(got), strings.ToLower(k)); d < dist {
			best, dist = k, d
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	if len(known) > 12 {
		return "`ebb serve --help` lists the keys"
	}
	return "known here: " + strings.Join(known, ", ")
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
