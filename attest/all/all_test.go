package all_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/all"
	"github.com/ebb-broker/ebb/attest/enroll"
	"github.com/ebb-broker/ebb/attest/jose"
)

type noTickets struct{}

func (noTickets) Redeem(context.Context, string, string) (enroll.Ticket, error) {
	return enroll.Ticket{}, nil
}

func env() all.Env {
	nonces, err := attest.NewNonces(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	return all.Env{Issuer: "https://ebb.example", Nonces: nonces, Tickets: noTickets{}, Keys: jose.KeySet{}.Key}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	const oidcConfig = `{"issuer":"https://i.example","audience":"https://ebb.example","jwks_url":"https://i.example/jwks"}`
	for _, tc := range []struct{ name, kind, config, problem string }{
		{"enroll", "enroll", "", ""},
		{"enroll", "enroll", "{}", ""},
		{"ci", "oidc", oidcConfig, ""},
		{"jobs", "oidc", `{"preset":"github-actions","audience":"https://ebb.example","required":{"repository_owner_id":"65"}}`, ""},
		{"x", "oidc", `{"preset":"github-actions","audience":"https://ebb.example","issuer":"https://i.example"}`, "issuer is pinned by the preset"},
		{"x", "spiffee", "", `there is no kind "spiffee"; the kinds are aws, ec2, enroll, kubernetes, nitro, oidc, spiffe, tpm, unixpeer`},
		{"x", "", "", "there is no kind"},
		{"x", "OIDC", oidcConfig, "there is no kind"},
		{"x", "enroll", `{"ttl":1}`, "has no settings"},
		{"x", "oidc", "", "needs a config section"},
		{"x", "oidc", "{}", "audience is empty"},
		{"x", "oidc", strings.Replace(oidcConfig, "{", `{"nope":1,`, 1), "nope"},
		{"cloud", "aws", `{"accounts":["123456789012"],"regions":["eu-west-1"]}`, ""},
		{"x", "aws", "", "needs a config section"},
		{"x", "aws", "{}", "accounts is empty"},
		{"boxes", "ec2", `{"accounts":["123456789012"],"certificates":{"eu-west-1":"/etc/ebb/ec2/eu-west-1.pem"}}`, ""},
		{"x", "ec2", "", "needs a config section"},
		{"x", "ec2", "{}", "certificates is empty"},
		{"x", "ec2", `{"regions":["eu-west-1"]}`, "regions"},
		{"cluster", "kubernetes", `{"mode":"jwks","issuer":"https://i.example","audience":"https://ebb.example","jwks_url":"https://i.example/jwks"}`, ""},
		{"x", "kubernetes", "", "needs a config section"},
		{"x", "kubernetes", "{}", "audience is empty"},
		{"x", "kubernetes", `{"kubeconfig":1}`, "kubeconfig"},
		{"x", "nitro", "", "needs a config section"},
		{"x", "nitro", "{}", "type is neither"},
		{"x", "nitro", `{"pcr":{}}`, "pcr"},
		{"x", "nitro", `{"type":"enclave"}`, "pcrs has none of pcr0 and pcr8"},
		{"enclave", "nitro", `{"type":"enclave","registered_pcrs":true}`, ""},
		{"boxes", "spiffe", `{"trust_domains":{"sbx.example":{"workload_api":"unix:///run/agent.sock","allow":["/sandbox/*"]}}}`, ""},
		{"boxes", "spiffe", "", "trust_domains"},
		{"boxes", "spiffe", "{}", "trust_domains is empty"},
		{"hosts", "tpm", `{"roots":["/etc/ebb/tpm-roots.pem"],"registered_pcrs":true}`, ""},
		{"hosts", "tpm", "", "needs a config section"},
		{"hosts", "tpm", "{}", "roots is empty"},
		{"boxes", "unixpeer", `{"require":["container_id"]}`, ""},
		{"boxes", "unixpeer", "", "needs a config section"},
		{"boxes", "unixpeer", `{"require":["uid"]}`, "uid alone fits every process"},
		{"", "oidc", oidcConfig, "name is empty"},
		{"", "enroll", "", "name and issuer"},
	} {
		a, err := all.Open(tc.name, tc.kind, []byte(tc.config), env())
		if tc.problem == "" && (a == nil || err != nil) {
			t.Errorf("%s %s: %v", tc.kind, tc.config, err)
		}
		if tc.problem != "" && (a != nil || err == nil || !strings.Contains(err.Error(), tc.problem)) {
			t.Errorf("%s %s: got %v, %v; want an error with %q", tc.kind, tc.config, a, err, tc.problem)
		}
	}
	if a, err := all.Open("enroll", "enroll", nil, all.Env{}); a != nil || err == nil {
		t.Errorf("without an environment: got %v, %v", a, err)
	}
}

func parseDir(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// TestBorrowedStaysBorrowed checks that fields of a kind's Config which ebb sets, such
// as Now, cannot be set in the configuration file.
func TestBorrowedStaysBorrowed(t *testing.T) {
	t.Parallel()
	shared := configFields(t, filepath.Join("..", "fetch"))
	for _, kind := range all.Kinds() {
		fields := configFields(t, filepath.Join("..", kind))
		if len(fields) == 0 {
			t.Errorf("%s has no Config", kind)
		}
		for _, field := range slices.Concat(fields, shared) {
			_, err := all.Open("x", kind, []byte(`{"`+field+`":null}`), env())
			if err == nil || !strings.Contains(err.Error(), field+": there is no such key") {
				t.Errorf("%s: %s: got %v, want the error that there is no such key", kind, field, err)
			}
		}
	}
}

// configFields returns the Go names of the fields of type Config in a folder.
func configFields(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, f := range parseDir(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "Config" {
				return true
			}
			for _, field := range spec.Type.(*ast.StructType).Fields.List {
				for _, name := range field.Names {
					names = append(names, name.Name)
				}
			}
			return false
		})
	}
	return names
}
