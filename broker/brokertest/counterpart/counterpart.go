package counterpart

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Need is the value of one of the variables of CONTRIBUTING.md.
func Need(t testing.TB, name string) string {
	t.Helper()
	v, known := variables[name]
	if !known {
		t.Fatalf("%s is no variable of a counterpart", name)
	}
	value := os.Getenv(name)
	if value == "" {
		Missing(t, v.name, "set "+name+" to "+v.is)
	}
	return value
}

// Program is the path of a program that belongs to a counterpart.
func Program(t testing.TB, name string) string {
	t.Helper()
	of, known := programs[name]
	if !known {
		t.Fatalf("%s is no program of a counterpart", name)
	}
	path, err := exec.LookPath(name)
	if err != nil { // servers are not on everybody's PATH
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		Missing(t, of, "install "+name)
	}
	return path
}

// Missing skips the test for want of a counterpart, of a part of it, or of something
// that not every machine allows, and fails it when that must be there. remedy says what to do.
func Missing(t testing.TB, name, remedy string) {
	t.Helper()
	if Required(t, name) {
		t.Fatalf("%s lists %s: %s", required, name, remedy)
	}
	t.Skipf("without %s, which %s does not list: %s", name, required, remedy)
}

// Required reports whether a counterpart must be there. A name in the list that is
// none of a counterpart fails the test: it would require nothing.
func Required(t testing.TB, name string) bool {
	t.Helper()
	list := strings.FieldsFunc(os.Getenv(required), func(r rune) bool { return r == ',' })
	for _, n := range list {
		if !slices.Contains(names(), n) {
			t.Fatalf("%s lists %q, which is none of %v", required, n, names())
		}
	}
	return slices.Contains(list, name)
}

// names are the counterparts, and what is asked of a machine, sorted.
func names() []string {
	all := slices.AppendSeq(slices.Clone(machine), maps.Values(programs))
	for _, v := range variables {
		all = append(all, v.name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
