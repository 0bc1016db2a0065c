package lazyregexp_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

func TestMain(m *testing.M) {
	if os.Getenv("EBB_TEST_LAZY") != "" {
		os.Args[0] = "ebb"
		lazyregexp.New("(")
		return
	}
	os.Exit(m.Run())
}

// An expression is compiled once, by its first of many users at the same time.
func TestRegexp(t *testing.T) {
	t.Parallel()
	r := lazyregexp.New(`^([a-z]+)-([0-9]+)$`)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if !r.MatchString("ab-12") || r.MatchString("ab") {
				t.Error("MatchString is wrong")
			}
			if got := r.FindStringSubmatch("ab-12"); !slices.Equal(got, []string{"ab-12", "ab", "12"}) {
				t.Errorf("FindStringSubmatch: %q", got)
			}
			if got := r.FindString("ab-12"); got != "ab-12" {
				t.Errorf("FindString: %q", got)
			}
			if got := r.ReplaceAllString("ab-12", "$2"); got != "12" {
				t.Errorf("ReplaceAllString: %q", got)
			}
		})
	}
	all.Wait()
}

// A malformed expression fails every test of its package, and is not compiled in a program that
// does not use it.
func TestMalformed(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EBB_TEST_LAZY=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a program: %v, %s", err, out)
	}
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "missing closing )") {
			t.Errorf("a test: %q", p)
		}
	}()
	lazyregexp.New("(")
}
