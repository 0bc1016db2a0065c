package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// load writes text to a file and loads it; HOME is a fresh directory.
func load(t *testing.T, text string, environ ...string) (config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	s := config.Source{Environ: append([]string{"HOME=" + dir}, environ...)}
	if text != "" {
		s.File = filepath.Join(dir, "ebb.yaml")
		if err := os.WriteFile(s.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config.Load(s)
}

// wrong returns the keys of the problems in err.
func wrong(t *testing.T, err error) []string {
	t.Helper()
	ps, ok := err.(config.Problems)
	if !ok {
		t.Fatalf("got %v, want Problems", err)
	}
	var keys []string
	for _, p := range ps {
		if p.Wrong == "" || p.Remedy == "" {
			t.Errorf("%s has no sentence or no remedy: %+v", p.Key, p)
		}
		keys = append(keys, p.Key)
	}
	return keys
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := load(t, "", "XDG_DATA_HOME=/srv/xdg")
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:8420" || c.DataDir != "/srv/xdg/ebb" || c.Signing.KeysDir != "/srv/xdg/ebb/keys" || c.Database != "" || !c.Embedded() || !c.Loopback() ||
		c.Signing.Alg != "ES256" || c.Limits.MaxTTL != time.Hour || c.Log.Level != "info" {
		t.Errorf("got %+v", c)
	}
}

const full = `
public_url: https://ebb.example.com
listen: 127.0.0.1:9000
data_dir: /srv/ebb
database: postgres://ebb@db:5432/ebb
redis:
  addrs: [a:6379, "b:6379"]
  master_name: mymaster
  tls: true
attestors:
  - name: enroll
    kind: enroll
  - name: ci
    kind: oidc
    config:
      issuer: https://ci.example.com
      audience: https://ebb.example.com
      required: {sub: "repo:x"}
providers:
  - {name: orders, kind: jwt, resource: "https://orders.example.com", max_ttl: 10m}
principals:
  - id: ann
    roles: [operator, approver]
    groups: [oncall]
    match: {attestor: ci, selectors: {sub: ann}}
  - id: orders-api
    roles: [resource_server]
    audiences: ["https://orders.example.com"]
    keys:
      - kty: OKP
        crv: Ed25519
        x: 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo
signing: {alg: EdDSA, rotate_every: 48h}
limits: {token_ttl: 30m, leases: 5}
dpop: {nonce: on}
trusted_proxies: [10.0.0.0/8]
log: {level: debug, format: text}
`

func TestFile(t *testing.T) {
	t.Parallel()
	c, err := load(t, full, "EBB_LISTEN=127.0.0.1:9001", "EBB_REDIS_ADDRS=c:1, d:2", "EBB_REDIS_PASSWORD=s3cret")
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:9001" || !slices.Equal(c.Redis.Addrs, []string{"c:1", "d:2"}) || c.Redis.Password().Reveal() != "s3cret" {
		t.Errorf("variables do not win over the file: %+v", c)
	}
	if len(c.Attestors) != 2 || string(c.Attestors[1].Config) != `{"audience":"https://ebb.example.com","issuer":"https://ci.example.com","required":{"sub":"repo:x"}}` {
		t.Errorf("attestors are %s", c.Attestors)
	}
	if len(c.Providers) != 1 || c.Providers[0].MaxTTL != 10*time.Minute {
		t.Errorf("providers are %+v", c.Providers)
	}
	if len(c.Principals) != 2 || c.Principals[0].Selectors["sub"] != "ann" || len(c.Principals[1].Keys) != 1 {
		t.Errorf("principals are %+v", c.Principals)
	}
	if c.Signing.RotateEvery != 48*time.Hour || c.Limits.DefaultCaps.Leases != 5 || c.DPoP.Nonce != "on" {
		t.Errorf("got %+v", c)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", c, c, c), "s3cret") {
		t.Error("the configuration prints a password")
	}
}

func TestSocket(t *testing.T) {
	t.Parallel()
	c, err := load(t, "listen_unix: run/ebb.sock\nlisten_unix_mode: 0666")
	if err != nil || !filepath.IsAbs(c.ListenUnix) || c.ListenUnixMode != "0666" {
		t.Errorf("got %q %q, %v", c.ListenUnix, c.ListenUnixMode, err)
	}
	if c, err = load(t, "", "EBB_LISTEN_UNIX=/run/ebb/ebb.sock"); err != nil || c.ListenUnix != "/run/ebb/ebb.sock" || c.ListenUnixMode != "0600" {
		t.Errorf("got %q %q, %v", c.ListenUnix, c.ListenUnixMode, err)
	}
	for text, key := range map[string]string{
		"listen_unix: /" + strings.Repeat("x", 103):              "listen_unix",
		"listen_unix: /run/ebb/ebb.sock\nlisten_unix_mode: 0777": "listen_unix_mode",
		"listen_unix_mode: 0660":                                 "listen_unix_mode",
	} {
		if _, err := load(t, text); !slices.Equal(wrong(t, err), []string{key}) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAllAtOnce: one run reports every problem.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := load(t, `
listen: 0.0.0.0:8420
public_url: http://ebb.example.com/
lissten: x
redis: {adrs: [a:1], tls: perhaps}
database: mysql://root:hunter2@db/x
database_password: hunter2
signing: {alg: HS256, rotate_every: 5}
limits: {leases: 0, token_ttl: 48h, grant_ttl: 61m}
dpop: {window: 1h}
trusted_proxies: [everywhere]
log:
principals:
  - {id: "a b", roles: [root], key: 1}
  - {id: ok, roles: [approver], match: {attestor: nobody, selectors: {sub: x}}}
providers:
  - {name: Orders, kind: jwt, resource: "/relative"}
`, "EBB_REDIS_ADRS=a:1")
	got := wrong(t, err)
	for _, want := range []string{
		"listen", "public_url", "lissten", "redis.adrs", "redis.tls", "database", "database_password", "signing.alg", "signing.rotate_every",
		"limits.leases", "limits.token_ttl", "limits.grant_ttl", "dpop.window", "trusted_proxies", "log", "principals[0].id", "principals[0].roles", "principals[0].key",
		"principals[0].keys", "principals[1].groups", "principals[1].match.attestor", "providers[0].name", "providers[0].resource", "EBB_REDIS_ADRS",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not reported", want)
		}
	}
	text := err.Error()
	for _, want := range []string{"ebb.yaml:4", "did you mean listen?", "did you mean EBB_REDIS_ADDRS?", "did you mean addrs?"} {
		if !strings.Contains(text, want) {
			t.Errorf("the message lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("the message repeats a password:\n%s", text)
	}
}

// Only one of the settings for client certificates may be set.
func TestClientCerts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"tls: {client_certs: any}":                                                        "tls.client_certs",
		"tls: {client_certs: all}":                                                        "tls.client_certs",
		"tls: {cert: config.go, key: config.go, client_certs: any}":                       "",
		"tls: {cert: config.go, key: config.go, client_ca: config.go}":                    "",
		"tls: {cert: config.go, key: config.go, client_ca: config.go, client_certs: any}": "tls.client_certs",
	} {
		c, err := load(t, text)
		if want == "" && (err != nil || !c.TLS.Mutual()) {
			t.Errorf("%s: %v", text, err)
		}
		if want != "" && !slices.Contains(wrong(t, err), want) {
			t.Errorf("%s: %s is not reported", text, want)
		}
	}
}

func TestNotYAML(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"syntax":      "listen: [a",
		"twice":       "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n",
		"a list":      "- listen",
		"a scalar":    "hello",
		"two files":   "listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n",
		"anchor":      "redis: &r {addrs: [a:1]}\nlog: *r\n",
		"tag":         "listen: !!binary aGVsbG8=\n",
		"nested list": "trusted_proxies: [[10.0.0.0/8]]",
		"text list":   "trusted_proxies: 10.0.0.0/8",
		"map":         "listen: {a: b}",
		"group":       "redis: here",
	} {
		if _, err := load(t, text); len(wrong(t, err)) == 0 {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := config.Load(config.Source{File: "/does/not/exist", Environ: []string{"HOME=/"}}); len(wrong(t, err)) != 1 {
		t.Errorf("a missing file says %v", err)
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "pw")
	if err := os.WriteFile(file, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, "database: postgres://ebb@db/ebb\ndatabase_password_file: "+file)
	if err != nil || c.DatabasePassword().Reveal() != "from file" {
		t.Errorf("file: %v", err)
	}
	// systemd and Kubernetes give a service its secrets by an ACL or a group.
	if err := os.Chmod(file, 0o440); err != nil {
		t.Fatal(err)
	}
	c, err = load(t, "database: postgres://ebb@db/ebb\ndatabase_password_file: "+file)
	if err != nil || c.DatabasePassword().Reveal() != "from file" {
		t.Errorf("file of a group: %v", err)
	}
	c, err = load(t, "", "EBB_DATABASE=postgres://ebb:in-url@db/ebb")
	if err != nil || c.DatabasePassword().Reveal() != "in-url" || strings.Contains(c.Database, "in-url") {
		t.Errorf("variable: %q, %v", c.Database, err)
	}
	for name, text := range map[string]string{
		"in the file": "database: postgres://ebb:hunter2@db/ebb",
		"as query":    "database: postgres://ebb@db/ebb?password=hunter2",
		"open":        "database: postgres://ebb@db/ebb\ndatabase_password_file: " + open,
		"missing":     "database: postgres://ebb@db/ebb\ndatabase_password_file: " + file + "x",
	} {
		_, err := load(t, text)
		if len(wrong(t, err)) != 1 || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = load(t, "database: postgres://ebb@db/ebb\ndatabase_password_file: "+file, "EBB_DATABASE_PASSWORD=x")
	if len(wrong(t, err)) != 1 {
		t.Errorf("two passwords: %v", err)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	c, err := load(t, "", "EBB_PROVIDERS=[{name: a, kind: jwt, resource: 'https://a.example'}]", "EBB_URL=http://x", "EBB_TEST_REDIS=y", "EBB_DPOP_NONCE=on")
	if err != nil || len(c.Providers) != 1 || c.DPoP.Nonce != "on" {
		t.Errorf("%+v, %v", c.Providers, err)
	}
	c, err = load(t, "", `EBB_PRINCIPALS=[{"id":"a","roles":["runner"],"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}]`)
	if err != nil || len(c.Principals) != 1 || len(c.Principals[0].Keys) != 1 || c.Principals[0].Keys[0].KID == "" {
		t.Errorf("%+v, %v", c.Principals, err)
	}
	_, err = load(t, "", "EBB_PROVIDERS=[{name: a, knd: jwt}", "EBB_NOPE=1", "EBB_LIMITS_LEASES=many")
	if got := wrong(t, err); !slices.Contains(got, "EBB_NOPE") || !slices.Contains(got, "limits.leases") || !slices.Contains(got, "EBB_PROVIDERS") {
		t.Errorf("got %v", got)
	}
}

func TestPublicKeyRefusesPrivate(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}`,
		"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "", "hello", `{"kty":"oct","k":"AAAA"}`,
	} {
		if _, err := config.PublicKey([]byte(text)); err == nil {
			t.Errorf("accepted %.30q", text)
		} else if strings.Contains(err.Error(), "nWGx") {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
}

// TestTable: every key is documented and has its own variable, and the table in
// docs/reference/configuration.md is current.
func TestTable(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range config.Keys() {
		v := config.Variable(k.Path)
		if seen[v] || k.Doc == "" || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%s: variable used twice, or no sentence", k.Path)
		}
		seen[v] = true
	}
	var b strings.Builder
	config.Markdown(&b)
	readme, err := os.ReadFile("../../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), b.String()) {
		t.Error("docs/reference/configuration.md has another table of keys: replace it with the output of `ebb config table`")
	}
}

func FuzzFile(f *testing.F) {
	f.Add(full)
	f.Add("listen: [")
	f.Add("a: &x {b: *x}")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := config.LoadText([]byte(text), []string{"HOME=/nonexistent"})
		if err == nil {
			return
		}
		if _, ok := err.(config.Problems); !ok {
			t.Errorf("got %v", err)
		}
	})
}

func TestEvidenceHeader(t *testing.T) {
	t.Parallel()
	c, err := load(t, "attestors: [{name: e2b, kind: oidc, evidence_header: X-Workload-Token}]")
	if err != nil || c.Attestors[0].Header != "X-Workload-Token" {
		t.Errorf("got %+v, %v", c.Attestors, err)
	}
	for _, text := range []string{
		"{name: e2b, kind: oidc, evidence_header: Authorization}", "{name: e2b, kind: oidc, evidence_header: dpop}",
		"{name: e2b, kind: oidc, evidence_header: 'X Y'}", "{name: enroll, kind: enroll, evidence_header: X-Workload-Token}",
	} {
		if _, err := load(t, "attestors: ["+text+"]"); err == nil || !strings.Contains(err.Error(), "evidence_header") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// TestTranscripts: transcript rules are read completely, and every problem of
// theirs is reported.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	load := func(text string) (config.Config, error) {
		file := filepath.Join(t.TempDir(), "ebb.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Load(config.Source{File: file, Environ: []string{"EBB_DATA_DIR=" + t.TempDir()}})
	}
	c, err := load(`
providers: [{name: stripe, kind: static, resource: https://api.stripe.com/}]
egress:
  transcripts:
    mib: 5
    keep: 2h
    rules:
      - {name: one, hosts: [api.stripe.com], providers: [stripe], methods: [POST], paths: [/v1/**], query: true, headers: [Content-Type], request_bytes: 10, answer_bytes: 20, when_full: skip}
      - {name: two, methods: [GET], paths: [/**]}
`)
	if err != nil {
		t.Fatal(err)
	}
	e := c.Egress
	if r := e.TranscriptRules; e.TranscriptsMiB != 5 || e.TranscriptsKeep != 2*time.Hour || len(r) != 2 || r[0].Name != "one" || !r[0].Query || r[0].RequestBytes != 10 || r[0].AnswerBytes != 20 || !r[0].SkipWhenFull ||
		r[0].Providers[0] != "stripe" || r[0].Headers[0] != "Content-Type" || r[1].SkipWhenFull || r[1].Query {
		t.Errorf("%+v", e)
	}
	_, err = load(`
egress:
  transcripts:
    mib: 0
    keep: 1s
    rules:
      - {name: one, methods: [get], paths: [/**]}
      - {name: one, methods: [GET], paths: [v1]}
      - {name: three, methods: [GET], paths: [/**], providers: [github], headers: [Authorization]}
      - {name: four, methods: [GET], paths: [/**], answer_bytes: 100000, when_full: erase, bodies: true}
`)
	for _, want := range []string{`"get" is not a method`, `"v1" is not a path`, `"one" is used twice`, `no provider is named "github"`, `"Authorization" carries credentials`, "from 0 to 65536", `"erase" is not one of deny, skip`, "bodies", "it is less than 1", "it is shorter than 1m"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s\n%v", want, err)
		}
	}
	if _, err := load("egress:\n  transcripts:\n    mib: 6\n    rules: [{name: a, methods: [GET], paths: [/**], request_bytes: 65536, answer_bytes: 65536}]\n"); err == nil || !strings.Contains(err.Error(), "and one task may use 768 KiB") {
		t.Errorf("no room for one: %v", err)
	}
	if _, err := load("egress:\n  enabled: false\n  transcripts:\n    rules: [{name: a, methods: [GET], paths: [/**]}]\n"); err == nil || !strings.Contains(err.Error(), "it has no effect") {
		t.Errorf("without egress: %v", err)
	}
}
