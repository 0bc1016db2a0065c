package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/doctest"
)

// TestDocuments runs README.md and every page under docs/start and docs/how-to as a reader would: one
// bash for the blocks of a page, an empty home directory, the built ebb on the PATH, and the outputs
// that the page shows. Package doctest describes the blocks.
//
// The pages show the default addresses of ebb. Each page runs in a network namespace of its own, so
// that every port is free and pages run beside each other. Where namespaces are forbidden, the pages
// run one after the other in the network of the machine, and a port in use fails a page.
func TestDocuments(t *testing.T) { runDocuments(t, false) }

// TestRealDocuments runs the pages that need a Kubernetes API server. .ci/run starts that server after
// the other tests, and then runs this one.
func TestRealDocuments(t *testing.T) { runDocuments(t, true) }

func runDocuments(t *testing.T, kube bool) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{"README.md"}
	for _, folder := range []string{"docs/start", "docs/how-to"} {
		found, err := filepath.Glob(filepath.Join(root, folder, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			pages = append(pages, filepath.ToSlash(filepath.Join(folder, filepath.Base(path))))
		}
	}
	shared := make(chan struct{}, 1) // the network of the machine
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		if kube != strings.Contains(string(text), "<!-- needs: kube") {
			continue
		}
		t.Run(page, func(t *testing.T) {
			if !kube { // pages of Kubernetes share namespaces of one cluster, so they run one by one
				t.Parallel()
			}
			runDocument(t, root, page, string(text), shared)
		})
	}
}

// TestDocumentIndex checks that docs/README.md links every page that is not in an index of its own.
func TestDocumentIndex(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"start", "how-to", "reference", "explanation"} {
		pages, err := filepath.Glob("../../docs/" + folder + "/*.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			if link := "](" + folder + "/" + filepath.Base(page) + ")"; !strings.Contains(string(index), link) {
				t.Errorf("docs/README.md has no link to %s/%s", folder, filepath.Base(page))
			}
		}
	}
}

// runDocument runs one page.
func runDocument(t *testing.T, root, page, text string, shared chan struct{}) {
	parsed, err := doctest.Parse(text)
	if err != nil {
		t.Fatalf("%s:%v", page, err)
	}
	if !slices.ContainsFunc(parsed.Steps, func(s doctest.Step) bool { return s.File == "" }) {
		if !strings.Contains(text, "<!-- not run: ") {
			t.Errorf("%s runs nothing: say why in a comment <!-- not run: REASON -->", page)
		}
		return
	}
	for _, name := range parsed.Needs {
		if documentServers[name].programs == nil && documentBeds[name] == nil {
			counterpart.NeedAll(t, name)
		}
	}
	shell, isolated := newDocumentShell(t, root)
	if !isolated {
		shared <- struct{}{}
		t.Cleanup(func() { <-shared })
	}
	t.Cleanup(shell.Close)
	installPackage(t, shell)
	replaced := slices.Clone(documentChanges[page])
	for _, name := range parsed.Needs {
		if server, own := documentServers[name]; own {
			server.start(t, shell, name)
		}
		if bed := documentBeds[name]; bed != nil {
			replaced = append(replaced, bed(t, shell)...)
		}
	}
	for i := 0; i < len(replaced); i += 2 {
		if !strings.Contains(text, replaced[i]) {
			t.Errorf("%s does not contain %q", page, replaced[i])
		}
	}
	for _, step := range parsed.Steps {
		step.Text = strings.NewReplacer(replaced...).Replace(step.Text)
		out, err := shell.Run(page, step)
		if err != nil {
			t.Fatalf("%s:%d: %v\n--- commands\n%s--- output\n%s", page, step.Line, err, step.Text, out)
		}
		if step.Want == nil || step.Background {
			continue
		}
		if missing := doctest.Compare(step.Want.Text, out); missing != "" {
			t.Fatalf("%s:%d: the output of line %d differs at: %s\n--- commands\n%s--- expected\n%s--- got\n%s",
				page, step.Want.Line, step.Line, missing, step.Text, step.Want.Text, out)
		}
	}
}

// installPackage makes the package of web/sdk/typescript importable for the page's scripts, as npm install would.
func installPackage(t *testing.T, shell *doctest.Shell) {
	t.Helper()
	dir := os.Getenv("EBB_TEST_SDK_TYPESCRIPT")
	if dir == "" {
		return
	}
	scope := filepath.Join(shell.Dir, "node_modules", "@ebb-broker")
	if err := os.MkdirAll(scope, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(scope, "client")); err != nil {
		t.Fatal(err)
	}
}

// newDocumentShell starts the shell of a page, with short paths: a Unix socket's path has at most 107
// bytes.
func newDocumentShell(t *testing.T, root string) (shell *doctest.Shell, isolated bool) {
	t.Helper()
	base, err := os.MkdirTemp("", "ebb-doc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	for _, name := range []string{"home", "page", "tmp", "blocks"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Dir(buildBinary(t)) + string(filepath.ListSeparator) + os.Getenv("PATH")
	shell = &doctest.Shell{
		Dir: filepath.Join(base, "page"), Scratch: filepath.Join(base, "blocks"), Patience: patience,
		Env: []string{"PATH=" + path, "HOME=" + filepath.Join(base, "home"), "TMPDIR=" + filepath.Join(base, "tmp"), "LC_ALL=C.UTF-8", "REPOSITORY=" + root, "GORACE=" + os.Getenv("GORACE"), "PYTHONDONTWRITEBYTECODE=1",
			"PYTHONPATH=" + filepath.Join(root, "web/sdk/python")}, // as if the package was installed
	}
	if isolated, err = shell.Start(); err != nil {
		t.Fatal(err)
	}
	return shell, isolated
}

// documentServers are the servers of counterparts that a page expects at their usual ports. The test
// starts them in the network of the page, so that no page and no other test sees the data of another.
var documentServers = map[string]documentServer{
	"redis": {[]string{"redis-server"}, `exec "$1" --bind 127.0.0.1 --port 6379 --save "" --dir "$TMPDIR"`, "...Ready to accept connections..."},
	// PostgreSQL refuses to run as root. The role postgres needs no password, as for an administrator on
	// the machine itself; every other role does.
	"postgres": {[]string{"initdb", "postgres"}, `
run() { if [ "$(id -u)" = 0 ]; then su postgres -s /bin/bash -c '"$0" "$@"' -- "$@"; else "$@"; fi; }
dir=$(TMPDIR=/tmp run mktemp -d)
trap 'rm -rf "$dir"' EXIT
run "$1" -D "$dir/data" -U postgres --no-sync --auth=trust
printf 'host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n' >"$dir/data/pg_hba.conf"
trap 'kill $! && wait $!; rm -rf "$dir"' TERM
run "$2" -D "$dir/data" -h 127.0.0.1 -p 5432 -k "$dir" -F &
wait $!`, "...database system is ready to accept connections"},
	"vault": {[]string{"EBB_TEST_VAULT_SERVER"}, `exec "$1" -port 8200`, "...ready..."},
}

type documentServer struct {
	programs []string // or variables with their paths
	script   string   // the paths of the programs are $1, $2
	ready    string   // last line of the output when the server is ready
}

func (d documentServer) start(t *testing.T, shell *doctest.Shell, name string) {
	t.Helper()
	paths := "set --"
	for _, program := range d.programs {
		if strings.HasPrefix(program, "EBB_") {
			paths += fmt.Sprintf(" '%s'", counterpart.Need(t, program))
			continue
		}
		paths += fmt.Sprintf(" '%s'", counterpart.Program(t, program))
	}
	step := doctest.Step{Line: 1, Text: paths + "\n" + strings.TrimSpace(d.script) + "\n", Background: true, Want: &doctest.Output{Text: d.ready + "\n"}}
	if out, err := shell.Run(name, step); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
