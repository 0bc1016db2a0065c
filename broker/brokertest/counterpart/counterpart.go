package counterpart

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Need returns the value of a variable of CONTRIBUTING.md.
func Need(t testing.TB, name string) string {
	t.Helper()
	v, known := variables[name]
	if !known {
		t.Fatalf("%s is not in the table of variables", name)
	}
	value := os.Getenv(name)
	if value == "" {
		Missing(t, v.name, "set "+name+" to "+v.is)
	}
	return value
}

// Program returns the path of a program that belongs to a counterpart.
func Program(t testing.TB, name string) string {
	t.Helper()
	of, known := programs[name]
	if !known {
		t.Fatalf("%s is not in the table of programs", name)
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	for _, where := range []string{"/usr/sbin/", "/usr/lib/postgresql/*/bin/"} { // these are not on every PATH
		found, _ := filepath.Glob(where + name)
		for _, path := range found {
			if path, err = exec.LookPath(path); err == nil {
				return path
			}
		}
	}
	Missing(t, of, "install "+name)
	return ""
}

// NeedAll requires every variable of a counterpart or, without variables, every program. A capability of
// the machine has neither, so that a test must check it itself.
func NeedAll(t testing.TB, name string) {
	t.Helper()
	found := false
	for _, v := range slices.Sorted(maps.Keys(variables)) {
		if variables[v].name == name {
			Need(t, v)
			found = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(programs)) {
		if programs[p] == name {
			Program(t, p)
			found = true
		}
	}
	if !found {
		t.Fatalf("%q is not a counterpart with variables or programs: %v", name, names())
	}
}

// Missing skips the test because a counterpart, a part of it, or a capability of the
// machine is missing. It fails the test if that counterpart is required. remedy says how
// to provide it.
func Missing(t testing.TB, name, remedy string) {
	t.Helper()
	if Required(t, name) {
		t.Fatalf("%s lists %s: %s", required, name, remedy)
	}
	t.Skipf("without %s, which %s does not list: %s", name, required, remedy)
}

// Required reports whether a counterpart is required. A name in the list that is not a
// counterpart fails the test, because it would require nothing.
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

// names returns the names of the counterparts and of the machine's capabilities, sorted.
func names() []string {
	all := slices.AppendSeq(slices.Clone(machine), maps.Values(programs))
	for _, v := range variables {
		all = append(all, v.name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
