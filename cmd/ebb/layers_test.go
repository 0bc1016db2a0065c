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

// layers is the house from the ground up (docs/architecture.md). A package
// imports lower lines only. A name that ends in /* stands for the sub-folders
// that no other line names. Change a line only in a commit that says why.
var layers = [][]string{
	{"ebb/attest/clock", "ebb/attest/fetch", "ebb/attest/options", "ebb/broker/brokertest/counterpart", "ebb/broker/agenttext/agenttexttest"},
	{"ebb/attest/jose", "ebb/broker/agenttext", "ebb/broker/clientcert", "ebb/broker/clientcert/clientcerttest", "ebb/broker/egress/pgwire", "ebb/broker/egress/redact", "ebb/broker/exact", "ebb/broker/owndir", "ebb/broker/people", "ebb/broker/redisstore/redistest", "ebb/scopes", "ebb/migrations"},
	{"ebb/attest/dpop", "ebb/attest", "ebb/broker/transcript"},
	{"ebb/scopes/policy", "ebb/attest/*", "ebb/attest/attesttest"},
	{"ebb/broker/provider", "ebb/broker/provider/ssh/krl", "ebb/broker/audit", "ebb/attest/all", "ebb/broker/keys", "ebb/broker/pace", "ebb/broker/receipt"},
	{"ebb/broker/provider/providertest", "ebb/broker/notify", "ebb/broker/seal", "ebb/broker/safe", "ebb/broker/risk", "ebb/broker/policyset", "ebb/broker/replay", "ebb/broker/awsapi", "ebb/broker/vaultapi"},
	{"ebb/broker/awsapi/awstest", "ebb/broker/seal/sealtest", "ebb/broker/vaultapi/vaulttest", "ebb/broker/provider/github/githubtest", "ebb/broker/notify/notifytest"},
	{"ebb/broker", "ebb/broker/notify/*", "ebb/broker/provider/*", "ebb/broker/seal/*"},
	{"ebb/broker/storetest", "ebb/broker/egress", "ebb/broker/policysource"},
	{"ebb/broker/redisstore", "ebb/broker/memstore", "ebb/broker/sqlstore", "ebb/broker/notifier", "ebb/broker/notify/all", "ebb/broker/provider/all", "ebb/broker/seal/all"},
	{"ebb/broker/sqlstore/sqlstoretest"},
	{"ebb/web", "ebb/web/client", "ebb/web/load", "ebb/web/verify", "ebb/broker/brokertest"},
	{"ebb/web/signin", "ebb/web/console/chart"},
	{"ebb/web/api", "ebb/web/signin/*", "ebb/broker/brokertest/crashtest"},
	{"ebb/web/console/passkey"},
	{"ebb/web/console", "ebb/web/api/walktest"},
	{"ebb/cmd/ebb/internal/out", "ebb/cmd/ebb/internal/keyfile", "ebb/cmd/ebb/internal/config", "ebb/cmd/ebb/internal/box", "ebb/cmd/ebb/internal/box/seccomp", "ebb/cmd/ebb/internal/box/cgroup"},
	{"ebb/cmd/ebb/internal/box/first", "ebb/cmd/ebb/internal/box/handover", "ebb/cmd/ebb/internal/box/place", "ebb/cmd/ebb/internal/box/watchdog"}, // what kinds of boxes have in common
	{"ebb/cmd/ebb/internal/box/*"},
	{"ebb/cmd/ebb/internal/*"},
	{"ebb/cmd/ebb", "ebb/.ci/peers/load"},
}

// fences keep a library where it belongs: import path prefix to the packages
// that may import it.
var fences = map[string][]string{
	"github.com/labstack/echo":        {"ebb/web", "ebb/web/api", "ebb/web/console", "ebb/web/signin", "ebb/web/signin/link", "ebb/web/signin/oidc", "ebb/web/verify"},
	"github.com/redis/go-redis":       {"ebb/broker/redisstore", "ebb/broker/redisstore/redistest"},
	"database/sql":                    {"ebb/broker/sqlstore", "ebb/broker/sqlstore/sqlstoretest", "ebb/migrations"},
	"github.com/jackc/pgx":            {"ebb/broker/sqlstore", "ebb/broker/storetest", "ebb/broker/provider/postgres", "ebb/broker/egress/pgwire"},
	"modernc.org/sqlite":              {"ebb/broker/sqlstore", "ebb/broker/sqlstore/sqlstoretest"},
	"github.com/golang-jwt":           {"ebb/attest/jose"},
	"github.com/fxamacker/cbor":       {"ebb/attest/nitro"},
	"golang.org/x/crypto/ssh":         {"ebb/broker/provider/ssh", "ebb/cmd/ebb/internal/demo", "ebb/cmd/ebb/internal/sshagent"},
	"github.com/go-jose":              {"ebb/attest/jose"},
	"github.com/cedar-policy":         {"ebb/scopes/policy"},
	"github.com/coreos/go-oidc":       {"ebb/web/signin/oidc"},
	"github.com/go-webauthn":          {"ebb/web/console/passkey"},
	"golang.org/x/oauth2":             {"ebb/web/signin/oidc"},
	"github.com/spf13/cobra":          {"ebb/cmd/ebb"},
	"github.com/modelcontextprotocol": {"ebb/cmd/ebb/internal/mcp"},
	"github.com/google/jsonschema-go": nil,
	"github.com/spiffe/":              {"ebb/attest/spiffe"},
	"github.com/google/go-tpm":        {"ebb/attest/tpm"},
	"github.com/containerd/":          {"ebb/attest/unixpeer"},
	"google.golang.org/grpc":          {"ebb/attest/unixpeer"},
	"github.com/goccy/go-yaml":        {"ebb/cmd/ebb/internal/config", "ebb/scopes/policy", "ebb/web/api"},
	"github.com/getkin/kin-openapi":   {"ebb/broker/provider/github/githubtest", "ebb/broker/notify/notifytest"},
	"github.com/aws/":                 {"ebb/broker/awsapi", "ebb/broker/awsapi/awstest", "ebb/broker/provider/aws", "ebb/broker/seal/kms"},
	"github.com/rogpeppe/":            nil,
	"pgregory.net/rapid":              {"ebb/broker/storetest", "ebb/broker/policysource"},
	"github.com/c2sp/wycheproof":      nil,
	"github.com/stretchr/testify":     nil,
	"go.opentelemetry.io/otel/sdk":    {"ebb/cmd/ebb"},
	"go.opentelemetry.io/otel/expor":  {"ebb/cmd/ebb"},
	"github.com/hashicorp/vault/api": {
		"ebb/broker/vaultapi", "ebb/broker/vaultapi/vaulttest", "ebb/broker/provider/static", "ebb/broker/provider/vault", "ebb/broker/seal/transit",
	},
	"golang.org/x/net":        {"ebb/cmd/ebb/internal/box/seccomp"},
	"golang.org/x/sys":        {"ebb/attest/clock", "ebb/web", "ebb/attest/unixpeer", "ebb/broker/egress", "ebb/cmd/ebb/internal/box/boxtest", "ebb/cmd/ebb/internal/box/bwrap", "ebb/cmd/ebb/internal/box/docker", "ebb/cmd/ebb/internal/box/first", "ebb/cmd/ebb/internal/box/handover", "ebb/cmd/ebb/internal/box/place", "ebb/cmd/ebb/internal/box/seccomp", "ebb/cmd/ebb/internal/box/watchdog", "ebb/cmd/ebb/internal/shim", "ebb/cmd/ebb/internal/stdio"},
	"net/http/pprof":          nil,
	"ebb/attest/all":          {"ebb/cmd/ebb"},
	"ebb/broker/notify/all":   {"ebb/cmd/ebb"},
	"ebb/broker/provider/all": {"ebb/cmd/ebb"},
	"net/smtp":                {"ebb/broker/notify/email"},
	"ebb/broker/seal/all":     {"ebb/cmd/ebb"},
}

// pkg is what go list says about one package.
type pkg struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// house is every package of this module: a pattern does not reach into .ci, where
// each other program is a module of its own, with one file and its comment for a map.
func house(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports", "ebb/...", "ebb/.ci/peers/load")
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

// layerOf is the line that names p, or -1. An exact name wins over a pattern.
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
	for _, p := range house(t) {
		mine := layerOf(p.ImportPath)
		if mine < 0 {
			t.Errorf("%s is on no layer: add it to layers, in a commit that says why it is there", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, "ebb/") {
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
	for _, p := range house(t) {
		for _, imp := range p.Imports {
			if problem := fenced(p.ImportPath, imp); problem != "" {
				t.Error(problem)
			}
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if strings.HasPrefix(imp, "github.com/stretchr/testify") || imp == "ebb/cmd/ebb" {
				t.Errorf("the tests of %s import %s", p.ImportPath, imp)
			}
		}
	}
}

func fenced(from, imp string) string {
	for library, allowed := range fences {
		if strings.HasPrefix(imp, library) && !slices.Contains(allowed, from) {
			return fmt.Sprintf("%s imports %s, which only %v may", from, imp, allowed)
		}
	}
	return ""
}

// TestLayersTest shows that the rules above refuse what they are for.
func TestLayersTest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ upper, lower string }{
		{"ebb/attest/oidc", "ebb/attest"}, {"ebb/attest/all", "ebb/attest/oidc"}, {"ebb/broker", "ebb/scopes/policy"},
		{"ebb/broker/provider/jwt", "ebb/broker/provider"}, {"ebb/broker/provider/all", "ebb/broker/provider/jwt"},
		{"ebb/broker/sqlstore", "ebb/broker"}, {"ebb/web/api", "ebb/web"}, {"ebb/cmd/ebb", "ebb/cmd/ebb/internal/out"},
	} {
		if u, l := layerOf(tt.upper), layerOf(tt.lower); l < 0 || u <= l {
			t.Errorf("%s is on layer %d, %s on layer %d", tt.upper, u, tt.lower, l)
		}
	}
	if a, b := layerOf("ebb/attest/oidc"), layerOf("ebb/attest/enroll"); a != b {
		t.Errorf("two kinds are on layers %d and %d: they could import each other", a, b)
	}
	if layerOf("ebb/attic") >= 0 || layerOf("ebb/web/new/thing") >= 0 {
		t.Error("an unknown folder has a layer")
	}
	for _, tt := range []struct{ from, imp string }{
		{"ebb/broker", "database/sql"}, {"ebb/broker", "github.com/labstack/echo/v4"}, {"ebb/web/api", "ebb/attest/all"},
		{"ebb/broker/memstore", "github.com/redis/go-redis/v9"}, {"ebb/attest/oidc", "github.com/golang-jwt/jwt/v5"},
		{"ebb/attest/oidc", "github.com/spiffe/go-spiffe/v2/spiffeid"},
	} {
		if fenced(tt.from, tt.imp) == "" {
			t.Errorf("%s may import %s", tt.from, tt.imp)
		}
	}
}

var fileName = regexp.MustCompile(`\b[a-z0-9_]+\.go\b`)

// TestMaps asks every folder for its map, and the map for every file of the folder:
// a file that a map forgets is one that nobody finds.
func TestMaps(t *testing.T) {
	t.Parallel()
	for _, p := range house(t) {
		checkMap(t, p.Dir, p.GoFiles)
	}
	// What CI brings is not under ./... and partly a module of its own.
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
	for dir, files := range beds {
		checkMap(t, dir, files)
	}
}

// TestMapsOfTheHouse asks docs/architecture.md for every folder that is neither a test
// kit, a list of kinds nor private to a command.
func TestMapsOfTheHouse(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tree, _ := strings.Cut(string(doc), "\n```\n")
	tree, _, _ = strings.Cut(tree, "\n```\n")
	named := regexp.MustCompile(`[a-z0-9]+`).FindAllString(tree, -1)
	for _, p := range house(t) {
		name := path.Base(p.ImportPath)
		kit := name == "all" || strings.HasSuffix(name, "test") || name == "counterpart"
		if !kit && !strings.Contains(p.ImportPath, "/internal/") && !strings.Contains(p.ImportPath, "/.ci/") && !slices.Contains(named, name) {
			t.Errorf("the tree in docs/architecture.md does not name %s: say in one line what it is", p.ImportPath)
		}
	}
}

func checkMap(t *testing.T, dir string, files []string) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(dir, "doc.go"))
	if err != nil {
		t.Errorf("%s has no doc.go: write the map of the folder", dir)
		return
	}
	named := fileName.FindAllString(string(doc), -1)
	for _, file := range files {
		if file != "doc.go" && !slices.Contains(named, file) {
			t.Errorf("the map of %s does not name %s", dir, file)
		}
	}
	for _, file := range named {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("the map of %s names %s, which is not there", dir, file)
		}
	}
}
