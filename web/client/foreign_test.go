package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web/client"
)

// maxPackages is the limit of packages that a program in another module
// compiles for the client: packages outside of the standard library, including
// the client's own.
const maxPackages = 60

// Another module builds with the client and the middleware, without the core
// and without echo, and works with a live ebb.
func TestForeignModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	module := string(regexp.MustCompile(`(?m)^module (\S+)$`).FindSubmatch(own)[1])
	// Both use the versions of this module, so nothing is downloaded.
	versions := regexp.MustCompile(`(?m)^(go|toolchain) .*$`).FindAllString(string(own), -1)
	requires := regexp.MustCompile(`(?ms)^require \(.*?^\)$`).FindAllString(string(own), -1)
	dir := t.TempDir()
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", []byte("module foreign.example/tool\n\n"+strings.Join(versions, "\n\n")+"\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n\n"+strings.Join(requires, "\n\n")+"\n"))
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write("go.sum", sums)
	program, err := os.ReadFile("testdata/foreign/main.go")
	if err != nil {
		t.Fatal(err)
	}
	write("main.go", []byte(strings.ReplaceAll(string(program), `"MODULE/`, `"`+module+`/`)))
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-trimpath -mod=mod", "GOPROXY=off", "GOWORK=off", "CGO_ENABLED=0")
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, said.String())
		}
		return string(out)
	}
	deps := func(of string) (list []string) {
		for _, p := range strings.Fields(run("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", of)) {
			if p == module+"/broker" || strings.HasPrefix(p, module+"/scopes/policy") || strings.HasPrefix(p, module+"/broker/provider") || strings.HasPrefix(p, "github.com/labstack/") {
				t.Errorf("%s needs %s", of, p)
			}
			list = append(list, p)
		}
		return list
	}
	if n := len(deps(module + "/web/client")); n > maxPackages {
		t.Errorf("the client needs %d packages, at most %d are good", n, maxPackages)
	}
	deps(".")
	run("go", "build", "-o", "tool", ".")

	h := newFixture(t, true)
	key := func(name string) string {
		path := filepath.Join(dir, name+".pem")
		if err := client.SaveKey(path, h.env.Keys[name]); err != nil {
			t.Fatal(err)
		}
		return path
	}
	got := run(filepath.Join(dir, "tool"), h.issuer, brokertest.Orders, brokertest.Runner, key(brokertest.Runner), brokertest.Server, key(brokertest.Server))
	if want := "DPoP orders:eu/42:read 200 closed 1 401 true\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
