package doctest

import (
	"regexp"
	"slices"
	"strings"
)

// rest stands for any lines in an expected output, and for any text in a line of it.
const rest = "..."

// Compare compares an expected output with the actual one, with Mask on both. It returns "" if
// they are the same, and otherwise the first expected line that the output does not have.
func Compare(want, got string) string {
	w, g := split(want), split(got)
	// afterW is the line of w after its last "...", -1 without one. afterG is the line of g from which
	// the comparison with those lines began.
	i, j, afterW, afterG := 0, 0, -1, 0
	furthest := 0
	for j < len(g) || i < len(w) {
		switch {
		case i < len(w) && w[i] == rest:
			i++
			afterW, afterG = i, j
			if i == len(w) {
				return ""
			}
		case i < len(w) && j < len(g) && sameLine(w[i], g[j]):
			i, j = i+1, j+1
		case afterW >= 0 && afterG < len(g):
			furthest = max(furthest, i)
			afterG++
			i, j = afterW, afterG
		default:
			furthest = max(furthest, i)
			if furthest < len(w) {
				return w[furthest]
			}
			return "(no further line)"
		}
	}
	return ""
}

// Contains reports whether a line of the output is the last line of want that is not "...", with
// Mask on both.
func Contains(want, got string) bool {
	w := slices.DeleteFunc(split(want), func(line string) bool { return line == rest })
	if len(w) == 0 {
		return true
	}
	return slices.ContainsFunc(split(got), func(line string) bool { return sameLine(w[len(w)-1], line) })
}

// split returns the masked lines without empty lines at the end.
func split(text string) []string {
	lines := strings.Split(strings.TrimRight(text, " \t\r\n"), "\n")
	for i := range lines {
		lines[i] = Mask(lines[i])
	}
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}

func sameLine(want, got string) bool {
	if !strings.Contains(want, rest) {
		return want == got
	}
	parts := strings.Split(want, rest)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(got)
}
