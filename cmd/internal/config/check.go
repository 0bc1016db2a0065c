package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// check sets values that depend on others, and adds every problem to ps.
func (c *Config) check(environ []string, src map[string]string, ps *Problems) {
	c.checkDirs(environ, src, ps)
	c.checkListen(src, ps)
	c.checkDatabase(src, ps)
	c.secrets(src, ps)
	c.checkRedis(src, ps)
	c.checkConsole(src, ps)
	c.checkNotify(src, ps)
	c.checkEgress(src, ps)
	c.checkTimes(src, ps)
	c.checkCaps(src, ps)
	for _, text := range c.TrustedProxies {
		if _, err := netip.ParsePrefix(text); err != nil {
			ps.add("trusted_proxies", src["trusted_proxies"], fmt.Sprintf("%q is not a CIDR", text), "write one such as 10.0.0.0/8 or 192.0.2.7/32")
		}
	}
	c.checkAttestors(src, ps)
	c.checkProviders(src, ps)
	if c.Instance != "" && !instanceForm.MatchString(c.Instance) {
		ps.add("instance", src["instance"], fmt.Sprintf("%q is not 8 hex digits", c.Instance), "write one such as 0a1b2c3d, or remove the key")
	}
	c.checkPrincipals(src, ps)
}

func (c *Config) checkDirs(environ []string, src map[string]string, ps *Problems) {
	c.DataDir = cmp.Or(c.DataDir, DataDir(environ))
	if c.DataDir == "" {
		ps.add("data_dir", "", "there is no home directory for the default", "set data_dir or EBB_DATA_DIR")
	}
	c.Signing.KeysDir = cmp.Or(c.Signing.KeysDir, filepath.Join(c.DataDir, "keys"))
	for _, p := range []*string{&c.ListenUnix, &c.DataDir, &c.Signing.KeysDir, &c.PolicyDir, &c.TLS.Cert, &c.TLS.Key, &c.TLS.ClientCA, &c.Redis.CAFile, &c.Egress.Dir, &c.Egress.CAFile} {
		if *p != "" {
			*p, _ = filepath.Abs(*p) // fails only without a working directory
		}
	}
	if c.PolicyDir != "" && c.PolicySource == PolicyDatabase {
		ps.add("policy_dir", src["policy_dir"], "policy_source is database, so files are not read", "remove one of the two; `ebb policy show` prints the policies, for a first draft")
	}
	if c.PolicyDir != "" {
		if info, err := os.Stat(c.PolicyDir); err != nil || !info.IsDir() {
			ps.add("policy_dir", src["policy_dir"], c.PolicyDir+" is not a readable directory", "create it, or remove the key to use the starter policy")
		}
	}
}

// Files in the data directory that clients on the same machine read.
const (
	OperatorKey = "operator.key" // the key of the local operator and runner
	URLFile     = "url"          // the public URL of the ebb that uses the directory
)

// DataDir returns the default data directory for an environment, "" without a
// home directory.
func DataDir(environ []string) string {
	env := map[string]string{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	switch {
	case env["EBB_DATA_DIR"] != "":
		return env["EBB_DATA_DIR"]
	case filepath.IsAbs(env["XDG_DATA_HOME"]):
		return filepath.Join(env["XDG_DATA_HOME"], "ebb")
	case env["HOME"] != "":
		return filepath.Join(env["HOME"], ".local", "share", "ebb")
	}
	return ""
}

func (c *Config) checkListen(src map[string]string, ps *Problems) {
	secure := c.TLS.Cert != "" && c.TLS.Key != ""
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		ps.add("tls", cmp.Or(src["tls.cert"], src["tls.key"]), "only one of tls.cert and tls.key is set", "set both or neither")
	}
	for _, f := range []struct{ key, path string }{
		{"tls.cert", c.TLS.Cert}, {"tls.key", c.TLS.Key}, {"tls.client_ca", c.TLS.ClientCA}, {"redis.ca_file", c.Redis.CAFile},
	} {
		if f.path == "" {
			continue
		}
		if _, err := readBounded(f.path, 1<<20); err != nil {
			ps.add(f.key, src[f.key], f.path+": "+reason(err), "name a readable PEM file")
		}
	}
	if c.TLS.ClientCA != "" && !secure {
		ps.add("tls.client_ca", src["tls.client_ca"], "it has no effect without tls.cert and tls.key", "set both, or remove the key")
	}
	switch {
	case c.TLS.ClientCerts == "":
	case c.TLS.ClientCA != "":
		ps.add("tls.client_certs", src["tls.client_certs"], "tls.client_certs accepts every client certificate, tls.client_ca only those of its CAs", "remove one of the two keys")
	case !secure:
		ps.add("tls.client_certs", src["tls.client_certs"], "it has no effect without tls.cert and tls.key", "set both, or remove the key")
	}
	if len(c.ListenUnix) > MaxSocketPath {
		ps.add("listen_unix", src["listen_unix"], "the path is too long for a Unix socket", fmt.Sprintf("choose a path of at most %d bytes", MaxSocketPath))
	}
	if c.ListenUnix == "" && src["listen_unix_mode"] != "" {
		ps.add("listen_unix_mode", src["listen_unix_mode"], "it has no effect: listen_unix is empty", "set listen_unix or remove the key")
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	switch {
	case err != nil:
		ps.add("listen", src["listen"], fmt.Sprintf("%q is not host:port", c.Listen), "write one such as 127.0.0.1:8420")
		return
	case !loopback(c.Listen) && !secure:
		ps.add("listen", src["listen"], c.Listen+" is reachable from other machines, and TLS is not configured", "set tls.cert and tls.key, or listen on 127.0.0.1:8420")
	}
	if c.PublicURL == "" {
		return // derived from the listener's address, which may not be known yet
	}
	u, err := url.Parse(c.PublicURL)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(c.PublicURL, "/") || strings.HasSuffix(c.PublicURL, "#") || strings.HasSuffix(c.PublicURL, "?"):
		ps.add("public_url", src["public_url"], fmt.Sprintf("%q cannot be an issuer (RFC 8414 section 2)", c.PublicURL), "write scheme and host, such as https://ebb.example.com, without a slash at the end")
	case !fetch.Secure(u):
		ps.add("public_url", src["public_url"], "it does not begin with https", "use https; http is allowed for loopback only")
	}
}

// MaxSocketPath is the maximum length in bytes of a Unix socket path on every
// system: sun_path has 104 bytes on some and 108 on Linux (unix(7)), with a
// zero at the end.
const MaxSocketPath = 103

func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && fetch.Loopback(host)
}

func (c *Config) checkDatabase(src map[string]string, ps *Problems) {
	if c.Database == "" {
		return
	}
	u, err := url.Parse(c.Database)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") || u.Host == "" {
		// The text could contain a password, so the message does not repeat it.
		ps.add("database", src["database"], "it is not a postgres:// URL", "write postgres://user@host:5432/name, or remove the key to use SQLite")
		return
	}
	password, found := u.User.Password()
	if !found && !u.Query().Has("password") {
		return
	}
	if src["database"] != Variable("database") || !c.databasePassword.Empty() || c.databasePasswordFile != "" || !found {
		ps.add("database", src["database"], "it contains a password", "remove it and use database_password_file or EBB_DATABASE_PASSWORD")
		return
	}
	c.databasePassword = secret.New(password)
	u.User = url.User(u.User.Username())
	c.Database = u.String()
}

func (c *Config) checkRedis(src map[string]string, ps *Problems) {
	for _, addr := range c.Redis.Addrs {
		if host, _, err := net.SplitHostPort(addr); err != nil || host == "" || strings.Contains(addr, "@") {
			ps.add("redis.addrs", src["redis.addrs"], "an address is not host:port", "write one such as 127.0.0.1:6379; set user and password with their own keys")
		}
	}
	if c.Redis.Cluster && c.Redis.MasterName != "" {
		ps.add("redis.cluster", src["redis.cluster"], "a Cluster has no Sentinel master", "remove redis.cluster or redis.master_name")
	}
	if len(c.Redis.Addrs) > 0 {
		return
	}
	for _, k := range keys {
		if strings.HasPrefix(k.Path, "redis.") && src[k.Path] != "" && k.Path != "redis.addrs" {
			ps.add(k.Path, src[k.Path], "it has no effect: redis.addrs is empty", "set redis.addrs or remove the key")
		}
	}
}

func (c *Config) checkTimes(src map[string]string, ps *Problems) {
	for _, t := range []struct {
		key      string
		got      time.Duration
		min, max time.Duration
	}{
		{"signing.rotate_every", c.Signing.RotateEvery, time.Hour, 10 * 365 * 24 * time.Hour},
		{"signing.lead", c.Signing.Lead, time.Minute, c.Signing.RotateEvery},
		{"signing.overlap", c.Signing.Overlap, max(c.Limits.MaxTTL, c.Limits.MaxTaskTTL, c.Limits.PrincipalTTL), 365 * 24 * time.Hour},
		{"limits.default_token_ttl", c.Limits.DefaultTTL, time.Second, c.Limits.MaxTTL},
		{"limits.token_ttl", c.Limits.MaxTTL, time.Second, 24 * time.Hour},
		{"limits.task_ttl", c.Limits.MaxTaskTTL, time.Minute, 30 * 24 * time.Hour},
		{"limits.ticket_ttl", c.Limits.TicketTTL, time.Second, time.Minute},
		{"limits.principal_ttl", c.Limits.PrincipalTTL, 10 * time.Second, time.Hour},
		{"limits.request_ttl", c.Limits.RequestTTL, time.Second, 24 * time.Hour},
		{"limits.grant_ttl", c.Limits.GrantTTL, time.Second, time.Hour},
		{"limits.cool_down", c.Limits.CoolDown, time.Second, 24 * time.Hour},
		{"limits.poll_interval", c.Limits.PollInterval, time.Second, time.Minute},
		{"limits.checkpoint", c.Limits.Checkpoint, time.Second, time.Hour},
		{"limits.sweep", c.Limits.Sweep, time.Minute, 24 * time.Hour},
	} {
		if t.got < t.min || t.got > t.max {
			ps.add(t.key, src[t.key], fmt.Sprintf("%s is out of range", t.got), fmt.Sprintf("choose from %s to %s", t.min, t.max))
		}
	}
}

// checkCaps refuses 0, which the broker would treat as "the default".
func (c *Config) checkCaps(src map[string]string, ps *Problems) {
	if n := c.Limits.HighRiskQuorum; n < 0 || n > 100 {
		const key = "limits.high_risk_quorum"
		ps.add(key, src[key], fmt.Sprintf("%d is out of range", n), "choose from 0 to 100; 0 = two, or as many as there are approvers")
	}
	for _, n := range []struct {
		key      string
		got, max int
	}{
		{"limits.leases", c.Limits.DefaultCaps.Leases, c.Limits.MaxCaps.Leases},
		{"limits.mints_per_minute", c.Limits.DefaultCaps.MintsPerMinute, c.Limits.MaxCaps.MintsPerMinute},
		{"limits.open_requests", c.Limits.DefaultCaps.OpenRequests, c.Limits.MaxCaps.OpenRequests},
		{"limits.max_leases", c.Limits.MaxCaps.Leases, 1_000_000},
		{"limits.max_mints_per_minute", c.Limits.MaxCaps.MintsPerMinute, 1_000_000},
		{"limits.max_open_requests", c.Limits.MaxCaps.OpenRequests, 1000},
		{"limits.runner_tasks", c.Limits.RunnerTasks, 1_000_000},
		{"limits.owner_per_minute", c.Limits.OwnerPerMin, 100_000_000},
		{"limits.owner_requests", c.Limits.OwnerRequests, 1_000_000},
		{"limits.denials_in_row", c.Limits.DenialsInRow, 100},
		{"limits.denials", c.Limits.Denials, 1_000_000},
		{"limits.asks", c.Limits.Asks, 1_000_000},
		{"limits.uses_per_minute", c.Limits.UsesPerMinute, 100_000_000}, {"egress.request_mib", c.Egress.RequestMiB, 1 << 20}, {"egress.task_mib", c.Egress.TaskMiB, 1 << 30},
		{"limits.owner_live", c.Limits.OwnerLive, 100_000_000},
	} {
		if n.got < 1 || n.got > n.max {
			ps.add(n.key, src[n.key], fmt.Sprintf("%d is out of range", n.got), fmt.Sprintf("choose from 1 to %d", n.max))
		}
	}
}

func (c *Config) checkAttestors(src map[string]string, ps *Problems) {
	seen := map[string]bool{}
	for i, a := range c.Attestors {
		at := fmt.Sprintf("attestors[%d]", i)
		checkName(at, a.Name, a.Kind, seen, src, ps)
		c.checkLiveness(at, a, src, ps)
		if a.Header != "" && a.Kind == "enroll" {
			ps.add(at+".evidence_header", src[at], "the attestor enroll takes tickets and task tokens, which no platform sends in a header", "remove it")
		} else if err := identity.CheckEvidenceHeader(a.Header); a.Header != "" && err != nil {
			ps.add(at+".evidence_header", src[at], err.Error(), "name the header that the platform's egress sets, such as X-Workload-Token")
		}
		if (a.Kind == "enroll") != (a.Name == "enroll") {
			ps.add(at+".name", src[at], "the attestor of kind enroll must be named enroll, and no other may have that name", "rename it, or remove it: enroll exists without configuration")
		}
	}
}

func (c *Config) checkLiveness(at string, a Attestor, src map[string]string, ps *Problems) {
	if !slices.Contains([]string{"", "complete", "pause", "nothing"}, a.OnSandboxExit) {
		ps.add(at+".on_sandbox_exit", src[at], fmt.Sprintf("%q is not an action", a.OnSandboxExit), "write complete, pause or nothing")
	}
	if !slices.Contains([]string{"", "complete", "nothing"}, a.OnMissedAttestation) {
		ps.add(at+".on_missed_attestation", src[at], fmt.Sprintf("%q is not an action", a.OnMissedAttestation), "write complete or nothing")
	}
	switch {
	case a.Reattest != 0 && a.Kind == "enroll":
		ps.add(at+".reattest", src[at], "a ticket can be used only once, so a sandbox cannot attest again with it", "remove it")
	case a.Reattest != 0 && a.Reattest < broker.MinReattest:
		ps.add(at+".reattest", src[at], "it is shorter than 10s", "write 10s or more")
	case a.OnMissedAttestation == "complete" && a.Reattest == 0:
		ps.add(at+".on_missed_attestation", src[at], "it has no effect without reattest", "set reattest, such as 5m")
	}
}

func checkName(at, name, kind string, seen map[string]bool, src map[string]string, ps *Problems) {
	if !nameForm.MatchString(name) {
		ps.add(at+".name", src[at], fmt.Sprintf("%q is not a name", name), "use a lower-case letter, then up to 31 of a-z, 0-9 and -")
	} else if seen[name] {
		ps.add(at+".name", src[at], fmt.Sprintf("%q is used twice", name), "give each its own name")
	}
	seen[name] = true
	if kind == "" {
		ps.add(at+".kind", src[at], "it is missing", "set kind")
	}
}

func (c *Config) checkProviders(src map[string]string, ps *Problems) {
	seen, resources := map[string]bool{}, map[string]bool{}
	for i, p := range c.Providers {
		at := fmt.Sprintf("providers[%d]", i)
		checkName(at, p.Name, p.Kind, seen, src, ps)
		u, err := url.Parse(p.Resource)
		switch {
		case err != nil || !u.IsAbs() || u.Fragment != "" || u.User != nil:
			ps.add(at+".resource", src[at], fmt.Sprintf("%q is not an absolute URI without a fragment (RFC 8707)", p.Resource), "write the URL of the API that accepts its tokens, such as https://orders.example.com")
		case resources[p.Resource]:
			ps.add(at+".resource", src[at], "another provider has the same resource", "use each resource for one provider only")
		}
		resources[p.Resource] = true
		if p.Parallel < 0 || p.Parallel > 1000 || p.MaxLive < 0 {
			ps.add(at, src[at], "parallel or max_live is out of range", "choose parallel from 1 to 1000 and max_live from 1, or remove them")
		}
		for _, action := range slices.Concat(p.Words.Reversible, p.Words.Irreversible) {
			if _, err := scopes.New("x", "x", action); err != nil || strings.Contains(action, scopes.Any) {
				ps.add(at, src[at], fmt.Sprintf("reversible or irreversible: %q is not an action", action), "write the last part of a scope, such as write")
			}
			if slices.Contains(p.Words.Reversible, action) && slices.Contains(p.Words.Irreversible, action) {
				ps.add(at, src[at], fmt.Sprintf("%q is both reversible and irreversible", action), "remove it from one of the lists")
			}
		}
		if p.MaxTTL > c.Limits.MaxTTL {
			ps.add(at+".max_ttl", src[at], "it is longer than limits.token_ttl", "shorten it or raise limits.token_ttl")
		}
	}
}

func (c *Config) checkPrincipals(src map[string]string, ps *Problems) {
	seen := map[string]bool{}
	for i, p := range c.Principals {
		at := fmt.Sprintf("principals[%d]", i)
		bad := func(key, wrong, remedy string) { ps.add(at+"."+key, src[at], wrong, remedy) }
		if !principalForm.MatchString(p.ID) {
			bad("id", fmt.Sprintf("%q is not an id", p.ID), "use up to 128 letters, digits and . _ @ + -")
		} else if seen[p.ID] {
			bad("id", fmt.Sprintf("%q is used twice", p.ID), "give each its own id")
		}
		seen[p.ID] = true
		if len(p.Roles) == 0 {
			bad("roles", "it is empty", "set at least one of "+strings.Join(roles, ", "))
		}
		if src[at+".keys"] == "" && p.Attestor == "" {
			bad("keys", "there are neither keys nor match, so it cannot authenticate", "add keys (see `ebb keys new`) or match")
		}
		if (p.Attestor == "") != (len(p.Selectors) == 0) {
			bad("match", "only one of attestor and selectors is set", "set both; without selectors every identity of the attestor would match")
		}
		if p.Attestor != "" && !slices.ContainsFunc(c.Attestors, func(a Attestor) bool { return a.Name == p.Attestor }) {
			bad("match.attestor", fmt.Sprintf("no attestor is named %q", p.Attestor), "name one of attestors")
		}
		if slices.Contains(p.Roles, broker.RoleApprover) && len(p.Groups) == 0 {
			bad("groups", "an approver without groups cannot decide any request", "add groups that policies name as approvers, or remove the role")
		}
		if src[at+".scopes"] != "" && !slices.Contains(p.Roles, broker.RoleApprover) {
			bad("scopes", "scopes limit an approver's decisions, and this principal is not an approver", "remove them, or add the role")
		}
		c.checkPatterns(at+".scopes", src[at], p.Scopes, ps)
		if slices.Contains(p.Roles, broker.RoleResourceServer) && len(p.Audiences) == 0 {
			bad("audiences", "a resource server without audiences can introspect no token", "add the resource URIs it serves, or remove the role")
		}
	}
}
