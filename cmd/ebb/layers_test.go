package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// layers lists the packages of the repository from the bottom up
// (docs/explanation/architecture.md). A package imports only earlier lines. A name that
// ends in /* stands for the sub-folders that no other line names. Change a line
// only in a commit that gives the reason.
var layers = [][]string{
	{"github.com/ebb-broker/ebb/web/wire", "github.com/ebb-broker/ebb/attest/clock", "github.com/ebb-broker/ebb/attest/fetch", "github.com/ebb-broker/ebb/attest/lazyregexp", "github.com/ebb-broker/ebb/attest/options", "github.com/ebb-broker/ebb/broker/egress/http1", "github.com/ebb-broker/ebb/broker/brokertest/counterpart", "github.com/ebb-broker/ebb/broker/agenttext/agenttexttest", "github.com/ebb-broker/ebb/broker/secret", "github.com/ebb-broker/ebb/scopes/nearest"},
	{"github.com/ebb-broker/ebb/attest/jose", "github.com/ebb-broker/ebb/broker/agenttext", "github.com/ebb-broker/ebb/broker/clientcert", "github.com/ebb-broker/ebb/broker/clientcert/clientcerttest", "github.com/ebb-broker/ebb/broker/egress/pgwire", "github.com/ebb-broker/ebb/broker/egress/redact", "github.com/ebb-broker/ebb/broker/stricturl", "github.com/ebb-broker/ebb/broker/owndir", "github.com/ebb-broker/ebb/broker/people", "github.com/ebb-broker/ebb/broker/redisstore/redistest", "github.com/ebb-broker/ebb/scopes", "github.com/ebb-broker/ebb/scopes/amount", "github.com/ebb-broker/ebb/migrations"},
	{"github.com/ebb-broker/ebb/attest/dpop", "github.com/ebb-broker/ebb/attest", "github.com/ebb-broker/ebb/broker/egress/content", "github.com/ebb-broker/ebb/broker/transcript"},
	{"github.com/ebb-broker/ebb/scopes/policy", "github.com/ebb-broker/ebb/broker/egress/content/*", "github.com/ebb-broker/ebb/attest/*", "github.com/ebb-broker/ebb/attest/attesttest"},
	{"github.com/ebb-broker/ebb/broker/provider", "github.com/ebb-broker/ebb/broker/provider/ssh/krl", "github.com/ebb-broker/ebb/broker/audit", "github.com/ebb-broker/ebb/attest/all", "github.com/ebb-broker/ebb/broker/keys", "github.com/ebb-broker/ebb/broker/pace", "github.com/ebb-broker/ebb/broker/receipt"},
	{"github.com/ebb-broker/ebb/broker/provider/providertest", "github.com/ebb-broker/ebb/broker/notify", "github.com/ebb-broker/ebb/broker/seal", "github.com/ebb-broker/ebb/broker/secretstore", "github.com/ebb-broker/ebb/broker/risk", "github.com/ebb-broker/ebb/broker/policyset", "github.com/ebb-broker/ebb/broker/replay", "github.com/ebb-broker/ebb/broker/awsapi", "github.com/ebb-broker/ebb/broker/vaultapi"},
	{"github.com/ebb-broker/ebb/broker/awsapi/awstest", "github.com/ebb-broker/ebb/broker/seal/sealtest", "github.com/ebb-broker/ebb/broker/vaultapi/vaulttest", "github.com/ebb-broker/ebb/broker/provider/github/githubtest", "github.com/ebb-broker/ebb/broker/notify/notifytest"},
	{"github.com/ebb-broker/ebb/broker", "github.com/ebb-broker/ebb/broker/notify/*", "github.com/ebb-broker/ebb/broker/provider/*", "github.com/ebb-broker/ebb/broker/seal/*"},
	{"github.com/ebb-broker/ebb/broker/internal/kernel"}, // the nouns above, and code used by all areas of the core
	{"github.com/ebb-broker/ebb/broker/internal/thirdparty"},
	{"github.com/ebb-broker/ebb/broker/identity", "github.com/ebb-broker/ebb/broker/issuance", "github.com/ebb-broker/ebb/broker/approval", "github.com/ebb-broker/ebb/broker/revocation", "github.com/ebb-broker/ebb/broker/durability", "github.com/ebb-broker/ebb/broker/liveness", "github.com/ebb-broker/ebb/broker/report", "github.com/ebb-broker/ebb/broker/policyadmin", "github.com/ebb-broker/ebb/broker/provideradmin"}, // the areas: siblings
	{"github.com/ebb-broker/ebb/broker/core"}, // connects the areas
	{"github.com/ebb-broker/ebb/broker/storetest", "github.com/ebb-broker/ebb/broker/egress", "github.com/ebb-broker/ebb/broker/policysource"},
	{"github.com/ebb-broker/ebb/broker/redisstore", "github.com/ebb-broker/ebb/broker/memstore", "github.com/ebb-broker/ebb/broker/sqlstore", "github.com/ebb-broker/ebb/broker/notifier", "github.com/ebb-broker/ebb/broker/notify/all", "github.com/ebb-broker/ebb/broker/provider/all", "github.com/ebb-broker/ebb/broker/seal/all"},
	{"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"},
	{"github.com/ebb-broker/ebb/web", "github.com/ebb-broker/ebb/web/client", "github.com/ebb-broker/ebb/web/verify", "github.com/ebb-broker/ebb/broker/brokertest"},
	{"github.com/ebb-broker/ebb/web/verify/echoverify"},
	{"github.com/ebb-broker/ebb/web/signin", "github.com/ebb-broker/ebb/web/console/chart"},
	{"github.com/ebb-broker/ebb/web/api", "github.com/ebb-broker/ebb/web/signin/*", "github.com/ebb-broker/ebb/broker/brokertest/crashtest"},
	{"github.com/ebb-broker/ebb/web/console/passkey", "github.com/ebb-broker/ebb/web/console/internal/session"},
	{"github.com/ebb-broker/ebb/web/console/internal/shell"},
	{"github.com/ebb-broker/ebb/web/console/internal/list", "github.com/ebb-broker/ebb/web/console/proof"},
	{"github.com/ebb-broker/ebb/web/console/*"}, // the areas of the console: siblings
	{"github.com/ebb-broker/ebb/web/console", "github.com/ebb-broker/ebb/web/api/walktest"},
	{"github.com/ebb-broker/ebb/cmd/internal/out", "github.com/ebb-broker/ebb/cmd/internal/keyfile", "github.com/ebb-broker/ebb/cmd/internal/config", "github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/seccomp", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/cgroup"},
	{"github.com/ebb-broker/ebb/cmd/internal/command"}, // shared by ebb and ebb-bench, as are out, keyfile and config
	{"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/first", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/handover", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/place", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/watchdog"}, // shared by the kinds of sandboxes
	{"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/*"},
	{"github.com/ebb-broker/ebb/cmd/ebb/internal/*", "github.com/ebb-broker/ebb/cmd/ebb-bench/internal/*"},
	{"github.com/ebb-broker/ebb/cmd/ebb", "github.com/ebb-broker/ebb/cmd/ebb-bench"},
}

// fences restrict the use of libraries: import path prefix to the packages that
// may import it. A name that ends in /... stands for everything below it.
var fences = map[string][]string{
	"github.com/labstack/echo":        {"github.com/ebb-broker/ebb/web", "github.com/ebb-broker/ebb/web/api", "github.com/ebb-broker/ebb/web/console", "github.com/ebb-broker/ebb/web/console/...", "github.com/ebb-broker/ebb/web/signin", "github.com/ebb-broker/ebb/web/signin/link", "github.com/ebb-broker/ebb/web/signin/oidc", "github.com/ebb-broker/ebb/web/verify/echoverify"},
	"github.com/redis/go-redis":       {"github.com/ebb-broker/ebb/broker/redisstore", "github.com/ebb-broker/ebb/broker/redisstore/redistest"},
	"database/sql":                    {"github.com/ebb-broker/ebb/broker/sqlstore", "github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest", "github.com/ebb-broker/ebb/migrations"},
	"github.com/jackc/pgx":            {"github.com/ebb-broker/ebb/broker/sqlstore", "github.com/ebb-broker/ebb/broker/storetest", "github.com/ebb-broker/ebb/broker/provider/postgres", "github.com/ebb-broker/ebb/broker/egress/pgwire"},
	"modernc.org/sqlite":              {"github.com/ebb-broker/ebb/broker/sqlstore", "github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"},
	"github.com/golang-jwt":           {"github.com/ebb-broker/ebb/attest/jose"},
	"github.com/fxamacker/cbor":       {"github.com/ebb-broker/ebb/attest/nitro"},
	"golang.org/x/crypto/ssh":         {"github.com/ebb-broker/ebb/broker/provider/ssh", "github.com/ebb-broker/ebb/cmd/ebb/internal/demo", "github.com/ebb-broker/ebb/cmd/ebb/internal/sshagent"},
	"github.com/go-jose":              {"github.com/ebb-broker/ebb/attest/jose"},
	"github.com/cedar-policy":         {"github.com/ebb-broker/ebb/scopes/policy"},
	"github.com/go-webauthn":          {"github.com/ebb-broker/ebb/web/console/passkey"},
	"golang.org/x/oauth2":             {"github.com/ebb-broker/ebb/web/signin/oidc"},
	"github.com/spf13/cobra":          {"github.com/ebb-broker/ebb/cmd/ebb", "github.com/ebb-broker/ebb/cmd/ebb-bench"},
	"github.com/modelcontextprotocol": {"github.com/ebb-broker/ebb/cmd/ebb/internal/mcp"},
	"github.com/google/jsonschema-go": nil,
	"github.com/spiffe/":              {"github.com/ebb-broker/ebb/attest/spiffe"},
	"github.com/google/go-tpm":        {"github.com/ebb-broker/ebb/attest/tpm"},
	"github.com/containerd/":          {"github.com/ebb-broker/ebb/attest/unixpeer"},
	"google.golang.org/grpc":          {"github.com/ebb-broker/ebb/attest/unixpeer"},
	"github.com/goccy/go-yaml":        {"github.com/ebb-broker/ebb/cmd/internal/config", "github.com/ebb-broker/ebb/scopes/policy", "github.com/ebb-broker/ebb/web/api"},
	"github.com/getkin/kin-openapi":   {"github.com/ebb-broker/ebb/broker/provider/github/githubtest", "github.com/ebb-broker/ebb/broker/notify/notifytest"},
	"github.com/aws/":                 {"github.com/ebb-broker/ebb/broker/awsapi", "github.com/ebb-broker/ebb/broker/awsapi/awstest", "github.com/ebb-broker/ebb/broker/provider/aws", "github.com/ebb-broker/ebb/broker/seal/kms"},
	"github.com/rogpeppe/":            nil,
	"pgregory.net/rapid":              {"github.com/ebb-broker/ebb/broker/storetest", "github.com/ebb-broker/ebb/broker/policysource"},
	"github.com/c2sp/wycheproof":      nil,
	"github.com/stretchr/testify":     nil,
	"go.opentelemetry.io/otel/sdk":    {"github.com/ebb-broker/ebb/cmd/ebb"},
	"go.opentelemetry.io/otel/expor":  {"github.com/ebb-broker/ebb/cmd/ebb"},
	"github.com/hashicorp/vault/api": {
		"github.com/ebb-broker/ebb/broker/vaultapi", "github.com/ebb-broker/ebb/broker/vaultapi/vaulttest", "github.com/ebb-broker/ebb/broker/provider/static", "github.com/ebb-broker/ebb/broker/provider/vault", "github.com/ebb-broker/ebb/broker/seal/transit",
	},
	"golang.org/x/net":                              {"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/seccomp"},
	"golang.org/x/sys":                              {"github.com/ebb-broker/ebb/attest/clock", "github.com/ebb-broker/ebb/web", "github.com/ebb-broker/ebb/attest/unixpeer", "github.com/ebb-broker/ebb/broker/egress", "github.com/ebb-broker/ebb/cmd/ebb/internal/doctest", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/sandboxtest", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/bwrap", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/docker", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/first", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/handover", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/place", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/seccomp", "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/watchdog", "github.com/ebb-broker/ebb/cmd/ebb/internal/shim", "github.com/ebb-broker/ebb/cmd/ebb/internal/stdio"},
	"net/http/pprof":                                nil,
	"github.com/ebb-broker/ebb/attest/all":          {"github.com/ebb-broker/ebb/cmd/ebb"},
	"github.com/ebb-broker/ebb/broker/notify/all":   {"github.com/ebb-broker/ebb/cmd/ebb"},
	"github.com/ebb-broker/ebb/broker/provider/all": {"github.com/ebb-broker/ebb/cmd/ebb"},
	"net/smtp": {"github.com/ebb-broker/ebb/broker/notify/email"},
	"github.com/ebb-broker/ebb/broker/seal/all": {"github.com/ebb-broker/ebb/cmd/ebb"},
}

// pkg is the output of go list for one package.
type pkg struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// ownPackages lists every package of this module. The programs in .ci are modules of
// their own.
func ownPackages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports", "github.com/ebb-broker/ebb/...")
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(b)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// layerOf returns the index of the line that names p, or -1. An exact name
// takes precedence over a pattern.
func layerOf(p string) int {
	for i, line := range layers {
		if slices.Contains(line, p) {
			return i
		}
	}
	for i, line := range layers {
		if slices.Contains(line, path.Dir(p)+"/*") {
			return i
		}
	}
	return -1
}

func TestLayers(t *testing.T) {
	t.Parallel()
	for _, p := range ownPackages(t) {
		mine := layerOf(p.ImportPath)
		if mine < 0 {
			t.Errorf("%s is on no layer: add it to layers, in a commit that says why it is there", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, modulePath) {
				continue
			}
			if theirs := layerOf(imp); theirs >= mine {
				t.Errorf("%s (layer %d) imports %s (layer %d): a package imports lower layers only", p.ImportPath, mine, imp, theirs)
			}
		}
	}
}

func TestFences(t *testing.T) {
	t.Parallel()
	for _, p := range ownPackages(t) {
		for _, imp := range p.Imports {
			if problem := fenced(p.ImportPath, imp); problem != "" {
				t.Error(problem)
			}
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if strings.HasPrefix(imp, "github.com/stretchr/testify") || imp == "github.com/ebb-broker/ebb/cmd/ebb" {
				t.Errorf("the tests of %s import %s", p.ImportPath, imp)
			}
		}
	}
}

func fenced(from, imp string) string {
	for library, allowed := range fences {
		below := func(name string) bool {
			dir, all := strings.CutSuffix(name, "...")
			return name == from || all && strings.HasPrefix(from, dir)
		}
		if strings.HasPrefix(imp, library) && !slices.ContainsFunc(allowed, below) {
			return fmt.Sprintf("%s imports %s, which only %v may", from, imp, allowed)
		}
	}
	return ""
}

// TestLayersOfTheProduct checks that ebb contains no part of ebb-bench and no
// test kit: neither has a purpose in the product.
func TestLayersOfTheProduct(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps", "github.com/ebb-broker/ebb/cmd/ebb")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(text))
	if !slices.Contains(deps, "github.com/ebb-broker/ebb/broker/core") {
		t.Fatalf("go list names %d packages without broker/core", len(deps))
	}
	for _, p := range deps {
		if notInProduct(p) {
			t.Errorf("the product contains %s", p)
		}
	}
	for p, want := range map[string]bool{
		"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load": true, "github.com/ebb-broker/ebb/broker/storetest": true, "github.com/ebb-broker/ebb/broker/brokertest/counterpart": true,
		"github.com/ebb-broker/ebb/broker/internal/testkit/redis": true, "net/http/httptest": true, "testing": true,
		"github.com/ebb-broker/ebb/attest": false, "github.com/ebb-broker/ebb/cmd/ebb": false, "github.com/ebb-broker/ebb/broker/people": false,
	} {
		if notInProduct(p) != want {
			t.Errorf("notInProduct(%q) is %v", p, !want)
		}
	}
}

// notInProduct reports whether p is a part of ebb-bench, a test kit, or a
// package of the standard library for tests.
func notInProduct(p string) bool {
	if p == "testing" || strings.HasPrefix(p, "testing/") || p == "net/http/httptest" {
		return true
	}
	if !strings.HasPrefix(p, modulePath) {
		return false
	}
	kit := func(folder string) bool {
		return folder == "testkit" || folder == "counterpart" || folder == "ebb-bench" || strings.HasSuffix(folder, "test") && folder != "attest"
	}
	return slices.ContainsFunc(strings.Split(p, "/"), kit)
}

// TestLayersTest checks that the rules above refuse violations.
func TestLayersTest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ upper, lower string }{
		{"github.com/ebb-broker/ebb/attest/oidc", "github.com/ebb-broker/ebb/attest"}, {"github.com/ebb-broker/ebb/attest/all", "github.com/ebb-broker/ebb/attest/oidc"}, {"github.com/ebb-broker/ebb/broker", "github.com/ebb-broker/ebb/scopes/policy"},
		{"github.com/ebb-broker/ebb/broker/provider/jwt", "github.com/ebb-broker/ebb/broker/provider"}, {"github.com/ebb-broker/ebb/broker/provider/all", "github.com/ebb-broker/ebb/broker/provider/jwt"},
		{"github.com/ebb-broker/ebb/broker/sqlstore", "github.com/ebb-broker/ebb/broker"}, {"github.com/ebb-broker/ebb/web/api", "github.com/ebb-broker/ebb/web"}, {"github.com/ebb-broker/ebb/cmd/ebb", "github.com/ebb-broker/ebb/cmd/internal/out"},
	} {
		if u, l := layerOf(tt.upper), layerOf(tt.lower); l < 0 || u <= l {
			t.Errorf("%s is on layer %d, %s on layer %d", tt.upper, u, tt.lower, l)
		}
	}
	if a, b := layerOf("github.com/ebb-broker/ebb/attest/oidc"), layerOf("github.com/ebb-broker/ebb/attest/enroll"); a != b {
		t.Errorf("two kinds are on layers %d and %d: they could import each other", a, b)
	}
	if a, b := layerOf("github.com/ebb-broker/ebb/web/console/requests"), layerOf("github.com/ebb-broker/ebb/web/console/tasks"); a != b {
		t.Errorf("two areas of the console are on layers %d and %d: they could import each other", a, b)
	}
	if layerOf("github.com/ebb-broker/ebb/attic") >= 0 || layerOf("github.com/ebb-broker/ebb/web/new/thing") >= 0 {
		t.Error("an unknown folder has a layer")
	}
	for _, tt := range []struct{ from, imp string }{
		{"github.com/ebb-broker/ebb/broker", "database/sql"}, {"github.com/ebb-broker/ebb/broker", "github.com/labstack/echo/v4"}, {"github.com/ebb-broker/ebb/web/api", "github.com/ebb-broker/ebb/attest/all"},
		{"github.com/ebb-broker/ebb/broker/memstore", "github.com/redis/go-redis/v9"}, {"github.com/ebb-broker/ebb/attest/oidc", "github.com/golang-jwt/jwt/v5"},
		{"github.com/ebb-broker/ebb/attest/oidc", "github.com/spiffe/go-spiffe/v2/spiffeid"}, {"github.com/ebb-broker/ebb/web/consoles", "github.com/labstack/echo/v4"},
	} {
		if fenced(tt.from, tt.imp) == "" {
			t.Errorf("%s may import %s", tt.from, tt.imp)
		}
	}
}

var fileName = regexp.MustCompile(`\b[a-z0-9_]+\.go\b`)

// modulePath is the module's path with a slash at its end. .ci/rename-module changes it.
var modulePath = strings.TrimSuffix("github.com/ebb-broker/ebb/...", "...")

// TestDrawing: the drawing of docs/explanation/architecture.md has no circle and shows each
// import between two of its groups, directly or along its arrows.
func TestDrawing(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/explanation/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```mermaid\n")
	drawing, _, _ := strings.Cut(rest, "```")
	groups, below := map[string]string{}, map[string][]string{}
	node := regexp.MustCompile(`(\w+)(?:\["([^"]*)"\])?`)
	for line := range strings.Lines(drawing) {
		from, to, found := strings.Cut(line, "-->")
		if !found {
			continue
		}
		f, u := node.FindStringSubmatch(from), node.FindStringSubmatch(to)
		below[f[1]] = append(below[f[1]], u[1])
		for _, n := range [][]string{f, u} {
			for folder := range strings.SplitSeq(n[2], ", ") {
				groups[folder] = n[1]
			}
		}
	}
	var reaches func(from, to string, depth int) bool
	reaches = func(from, to string, depth int) bool {
		if depth > len(below) {
			t.Fatalf("the drawing has a circle through %s", from)
		}
		return slices.ContainsFunc(below[from], func(n string) bool { return n == to || reaches(n, to, depth+1) })
	}
	for group := range below {
		if reaches(group, group, 0) {
			t.Errorf("the drawing has a circle through %s", group)
		}
	}
	groupOf := func(p string) string {
		for p = strings.TrimPrefix(p, modulePath); groups[p] == "" && p != "."; p = path.Dir(p) {
		}
		return groups[p]
	}
	for _, p := range ownPackages(t) {
		if notInProduct(p.ImportPath) {
			continue
		}
		from := groupOf(p.ImportPath)
		if from == "" {
			t.Errorf("%s belongs to no group of the drawing", p.ImportPath)
		}
		for _, i := range p.Imports {
			if !strings.HasPrefix(i, modulePath) {
				continue
			}
			if to := groupOf(i); to != from && !reaches(from, to, 0) {
				t.Errorf("%s imports %s, but the drawing has no arrow from %s to %s", p.ImportPath, i, from, to)
			}
		}
	}
}

// TestMaps checks that every folder has a doc.go with the purpose and the files
// of the package. A file that it names must exist.
func TestMaps(t *testing.T) {
	t.Parallel()
	for _, p := range ownPackages(t) {
		checkMap(t, p.Dir)
	}
	// The programs of CI are modules of their own.
	beds := map[string][]string{}
	err := filepath.WalkDir(filepath.Join("..", "..", ".ci"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			beds[filepath.Dir(path)] = append(beds[filepath.Dir(path)], filepath.Base(path))
		}
		return err
	})
	if err != nil || len(beds) == 0 {
		t.Errorf("found %v, %v", beds, err)
	}
	for dir := range beds {
		checkMap(t, dir)
	}
}

// TestArchitectureNamesFolders checks that docs/explanation/architecture.md names every folder except
// test kits, lists of kinds, and packages private to a command.
func TestArchitectureNamesFolders(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "explanation", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tree, _ := strings.Cut(string(doc), "\n```\n")
	tree, _, _ = strings.Cut(tree, "\n```\n")
	named := regexp.MustCompile(`[a-z0-9]+(?:-[a-z0-9]+)*`).FindAllString(tree, -1)
	for _, p := range ownPackages(t) {
		name := path.Base(p.ImportPath)
		kit := name == "all" || strings.HasSuffix(name, "test") || name == "counterpart"
		if !kit && !strings.Contains(p.ImportPath, "/internal/") && !slices.Contains(named, name) {
			t.Errorf("the tree in docs/explanation/architecture.md does not name %s: add a line with its purpose", p.ImportPath)
		}
	}
}

func checkMap(t *testing.T, dir string) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(dir, "doc.go"))
	if err != nil {
		t.Errorf("%s has no doc.go: say in it what the package is for and how a request passes through it", dir)
		return
	}
	named := fileName.FindAllString(string(doc), -1)
	for _, file := range named {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("the map of %s names %s, which is not there", dir, file)
		}
	}
}
