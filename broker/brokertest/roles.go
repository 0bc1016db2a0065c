package brokertest

import (
	"os"
	"strings"
	"testing"
)

// RoleTable reads the table with this first column head from a documentation page. It
// returns, by route and role, whether the role may call the route.
func RoleTable(t testing.TB, file, head string) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| "+head+" | ")
	if !found {
		t.Fatalf("%s has no table of %s", file, head)
	}
	table, _, _ = strings.Cut(head+" | "+table, "\n\n")
	lines := strings.Split(table, "\n")
	roles, out := cells(lines[0]), map[string]map[string]string{}
	for _, line := range lines[2:] { // after the rule below the head
		row := cells(line)
		route := strings.Trim(row[0], "`")
		if len(row) != len(roles) || out[route] != nil {
			t.Fatalf("the row of %s is too long or short, or there twice", route)
		}
		out[route] = map[string]string{}
		for i, role := range roles[1:] {
			out[route][role] = row[i+1]
		}
	}
	return out
}

func cells(line string) []string {
	parts := strings.Split(strings.Trim(line, "| "), "|")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
