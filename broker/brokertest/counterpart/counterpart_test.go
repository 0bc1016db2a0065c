package counterpart_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// recorder is a testing.TB whose outcome another test checks.
type recorder struct {
	testing.TB
	said string
}

func (*recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) { r.stop("failed: "+format, args...) }
func (r *recorder) Skipf(format string, args ...any)  { r.stop("skipped: "+format, args...) }

func (r *recorder) stop(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	panic(r)
}

// outcome returns how the test of f ended; "" means passed.
func outcome(f func(testing.TB)) string {
	r := &recorder{}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(r) {
				panic(v)
			}
		}()
		f(r)
	}()
	return r.said
}

func TestNeed(t *testing.T) {
	vault := func(t testing.TB) { counterpart.Need(t, "EBB_TEST_VAULT") }
	for _, tt := range []struct{ name, value, required, want string }{
		{"there", "http://127.0.0.1:1", "vault", ""},
		{"not there", "", "", "skipped: without vault, which EBB_TEST_REQUIRE does not list: set EBB_TEST_VAULT to "},
		{"others are required", "", "redis,postgres", "skipped: "},
		{"part of a name", "", "redis-cluster,node-op", "skipped: "},
		{"required", "", "redis,vault", "failed: EBB_TEST_REQUIRE lists vault: set EBB_TEST_VAULT to "},
		{"a misspelt name requires nothing", "", "vualt", `failed: EBB_TEST_REQUIRE lists "vualt", which is none of [`},
		{"with a space", "", "redis, vault", `failed: EBB_TEST_REQUIRE lists " vault"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("EBB_TEST_VAULT", tt.value)
			t.Setenv("EBB_TEST_REQUIRE", tt.required)
			if got := outcome(vault); !strings.HasPrefix(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if got := outcome(func(t testing.TB) { counterpart.Need(t, "EBB_TEST_VALUT") }); !strings.HasPrefix(got, "failed: ") {
		t.Errorf("an unknown variable: %q", got)
	}
}

func TestProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("EBB_TEST_REQUIRE", "")
	git := func(t testing.TB) { counterpart.Program(t, "git") }
	if got := outcome(git); !strings.HasPrefix(got, "skipped: without git") {
		t.Error(got)
	}
	t.Setenv("EBB_TEST_REQUIRE", "git")
	if got := outcome(git); got != "failed: EBB_TEST_REQUIRE lists git: install git" {
		t.Error(got)
	}
	if got := outcome(func(t testing.TB) { counterpart.Program(t, "gti") }); !strings.HasPrefix(got, "failed: ") {
		t.Errorf("an unknown program: %q", got)
	}
}

// The table and CONTRIBUTING.md list the same counterparts.
func TestContributing(t *testing.T) {
	text, err := os.ReadFile("../../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile("`(EBB_TEST_[A-Z_]+)`")
	documented := map[string]bool{}
	for _, m := range variable.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	for _, name := range counterpart.Variables() {
		if !documented[name] {
			t.Errorf("CONTRIBUTING.md does not say what %s is", name)
		}
	}
	list := regexp.MustCompile("`EBB_TEST_REQUIRE` \\| of `([^`]*)`").FindSubmatch(text)
	if list == nil || string(list[1]) != strings.Join(counterpart.Names(), ",") {
		t.Errorf("CONTRIBUTING.md lists %s, want %s", list[1:], strings.Join(counterpart.Names(), ","))
	}
}
