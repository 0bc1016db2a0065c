package config

import "github.com/goccy/go-yaml/ast"

// Key is one key of the configuration.
type Key struct {
	Path    string // "redis.addrs"; its variable is Variable(Path)
	Default string // as it would be written; "" = empty
	Doc     string // one sentence
	Secret  bool   // only as a variable, never in the file, never printed

	to func(*Config, *reader) any
}

// listOf is a key whose value is a list of mappings.
type listOf func(path string, n ast.Node)

// Keys returns the table of keys, in the order of the documentation.
func Keys() []Key { return append([]Key(nil), keys...) }

var keys = []Key{
	{Path: "public_url", Doc: "Issuer and base of every URL that ebb announces; default http(s)://<listen>.",
		to: func(c *Config, _ *reader) any { return &c.PublicURL }},
	{Path: "listen", Default: "127.0.0.1:8420", Doc: "Address of the API. Anything but loopback needs tls.cert and tls.key.",
		to: func(c *Config, _ *reader) any { return &c.Listen }},
	{Path: "tls.cert", Doc: "PEM file of the server certificate chain.",
		to: func(c *Config, _ *reader) any { return &c.TLS.Cert }},
	{Path: "tls.key", Doc: "PEM file of its private key, mode 0600.",
		to: func(c *Config, _ *reader) any { return &c.TLS.Key }},
	{Path: "tls.client_ca", Doc: "PEM file of the CAs of client certificates; set = certificates are asked for and tokens can be bound to them (RFC 8705).",
		to: func(c *Config, _ *reader) any { return &c.TLS.ClientCA }},
	{Path: "data_dir", Doc: "Directory (0700) of keys and SQLite; default $XDG_DATA_HOME/ebb, else ~/.local/share/ebb.",
		to: func(c *Config, _ *reader) any { return &c.DataDir }},
	{Path: "database", Doc: "Journal: empty = SQLite in data_dir, or postgres://user@host/name without a password.",
		to: func(c *Config, _ *reader) any { return &c.Database }},
	{Path: "database_password_file", Doc: "File that holds the database password, mode 0600.",
		to: func(c *Config, _ *reader) any { return &c.databasePasswordFile }},
	{Path: "database_password", Secret: true, Doc: "The database password itself, from the environment only.",
		to: func(c *Config, _ *reader) any { return secret{&c.databasePassword} }},
	{Path: "redis.addrs", Doc: "Ledger: empty = in this process; one host:port, the Sentinels, or the Cluster's seeds.",
		to: func(c *Config, _ *reader) any { return &c.Redis.Addrs }},
	{Path: "redis.master_name", Doc: "Name of the master; set it when redis.addrs are Sentinels.",
		to: func(c *Config, _ *reader) any { return &c.Redis.MasterName }},
	{Path: "redis.username", Doc: "ACL user.",
		to: func(c *Config, _ *reader) any { return &c.Redis.Username }},
	{Path: "redis.password_file", Doc: "File that holds the Redis password, mode 0600.",
		to: func(c *Config, _ *reader) any { return &c.Redis.passwordFile }},
	{Path: "redis.password", Secret: true, Doc: "The Redis password itself, from the environment only.",
		to: func(c *Config, _ *reader) any { return secret{&c.Redis.password} }},
	{Path: "redis.cluster", Default: "false", Doc: "redis.addrs is the one configuration endpoint of a Cluster; several addresses without master_name are one anyway.",
		to: func(c *Config, _ *reader) any { return &c.Redis.Cluster }},
	{Path: "redis.sentinel_username", Doc: "ACL user at the Sentinels.",
		to: func(c *Config, _ *reader) any { return &c.Redis.SentinelUsername }},
	{Path: "redis.sentinel_password_file", Doc: "File that holds the Sentinels' password, mode 0600.",
		to: func(c *Config, _ *reader) any { return &c.Redis.sentinelPasswordFile }},
	{Path: "redis.sentinel_password", Secret: true, Doc: "The Sentinels' password itself, from the environment only.",
		to: func(c *Config, _ *reader) any { return secret{&c.Redis.sentinelPassword} }},
	{Path: "redis.prefix", Default: "ebb", Doc: "First part of every key in Redis.",
		to: func(c *Config, _ *reader) any { return &c.Redis.Prefix }},
	{Path: "redis.tls", Default: "false", Doc: "Connect to Redis with TLS.",
		to: func(c *Config, _ *reader) any { return &c.Redis.TLS }},
	{Path: "redis.ca_file", Doc: "PEM file of the CA of Redis; empty = the system's.",
		to: func(c *Config, _ *reader) any { return &c.Redis.CAFile }},
	{Path: "redis.wait_replicas", Default: "0", Doc: "How many Redis replicas must confirm the end of a task or lease.",
		to: func(c *Config, _ *reader) any { return &c.Redis.WaitReplicas }},
	{Path: "policy_dir", Doc: "Directory of Cedar policies, watched; empty = the built-in starter policy (`ebb policy show`).",
		to: func(c *Config, _ *reader) any { return &c.PolicyDir }},
	{Path: "attestors", Doc: "List of {name, kind, config}: who may vouch for a sandbox; one named enroll is always there.",
		to: func(c *Config, r *reader) any { return c.readAttestors(r) }},
	{Path: "providers", Doc: "List of {name, kind, resource, max_ttl, parallel, max_live, config}: what mints; empty = one named local of kind jwt.",
		to: func(c *Config, r *reader) any { return c.readProviders(r) }},
	{Path: "principals", Doc: "List of {id, roles, groups, audiences, keys, match}; empty = local-operator and local-approver.",
		to: func(c *Config, r *reader) any { return c.readPrincipals(r) }},
	{Path: "signing.alg", Default: "ES256", Doc: "How own tokens are signed: ES256, EdDSA or RS256.",
		to: func(c *Config, _ *reader) any {
			return choice{&c.Signing.Alg, []string{"ES256", "EdDSA", "RS256"}}
		}},
	{Path: "signing.rotate_every", Default: "720h", Doc: "Age at which a new signing key takes over.",
		to: func(c *Config, _ *reader) any { return &c.Signing.RotateEvery }},
	{Path: "signing.lead", Default: "1h", Doc: "How long a new key is published before it signs.",
		to: func(c *Config, _ *reader) any { return &c.Signing.Lead }},
	{Path: "signing.overlap", Default: "25h", Doc: "How long a key verifies after its last signature; at least the longest life of a token.",
		to: func(c *Config, _ *reader) any { return &c.Signing.Overlap }},
	{Path: "signing.keys_dir", Doc: "Directory (0700) of signing keys; default data_dir/keys. Replicas share it.",
		to: func(c *Config, _ *reader) any { return &c.Signing.KeysDir }},
	{Path: "sealing.kind", Default: "file", Doc: "Where the key lives that seals revocation handles: file, transit (Vault, OpenBao), or kms (AWS).",
		to: func(c *Config, _ *reader) any { return choice{&c.Sealing.Kind, []string{"file", "transit", "kms"}} }},
	{Path: "sealing.config", Doc: "What the kind needs; default {path: data_dir/sealing.pem}. Replicas share the key; without it what is owed to providers waits.",
		to: func(c *Config, r *reader) any {
			return listOf(func(path string, n ast.Node) { r.assign(path, n, &c.Sealing.Config) })
		}},
	{Path: "sealing.previous", Doc: "Where the key was before, {kind, config}: what it sealed still opens, and moves.",
		to: func(c *Config, r *reader) any {
			return listOf(func(path string, n ast.Node) { r.assign(path, n, &c.Sealing.Previous) })
		}},
	{Path: "instance", Doc: "8 hex digits that name this installation at third parties; default from public_url. Replicas have the same.",
		to: func(c *Config, _ *reader) any { return &c.Instance }},
	{Path: "limits.default_token_ttl", Default: "15m", Doc: "Life of a token when the client asks for none.",
		to: func(c *Config, _ *reader) any { return &c.Limits.DefaultTTL }},
	{Path: "limits.token_ttl", Default: "1h", Doc: "Longest life of a token.",
		to: func(c *Config, _ *reader) any { return &c.Limits.MaxTTL }},
	{Path: "limits.task_ttl", Default: "24h", Doc: "Longest life of a task.",
		to: func(c *Config, _ *reader) any { return &c.Limits.MaxTaskTTL }},
	{Path: "limits.ticket_ttl", Default: "60s", Doc: "Life of an enrolment ticket; never more than 60s.",
		to: func(c *Config, _ *reader) any { return &c.Limits.TicketTTL }},
	{Path: "limits.principal_ttl", Default: "10m", Doc: "Life of a principal's token for /v1.",
		to: func(c *Config, _ *reader) any { return &c.Limits.PrincipalTTL }},
	{Path: "limits.request_ttl", Default: "30m", Doc: "How long a request waits for a person; no answer is a no.",
		to: func(c *Config, _ *reader) any { return &c.Limits.RequestTTL }},
	{Path: "limits.grant_ttl", Default: "15m", Doc: "How long an approval is reused inside its task at most; the approved life of a token ends it earlier.",
		to: func(c *Config, _ *reader) any { return &c.Limits.GrantTTL }},
	{Path: "limits.cool_down", Default: "15m", Doc: "How long the same request is refused after a no.",
		to: func(c *Config, _ *reader) any { return &c.Limits.CoolDown }},
	{Path: "limits.poll_interval", Default: "5s", Doc: "How often a waiting client may ask.",
		to: func(c *Config, _ *reader) any { return &c.Limits.PollInterval }},
	{Path: "limits.checkpoint", Default: "1m", Doc: "Time between signed checkpoints of the audit chain.",
		to: func(c *Config, _ *reader) any { return &c.Limits.Checkpoint }},
	{Path: "limits.sweep", Default: "10m", Doc: "Time between searches for credentials at providers that no record knows as alive.",
		to: func(c *Config, _ *reader) any { return &c.Limits.Sweep }},
	{Path: "limits.leases", Default: "1000", Doc: "Live credentials of a task that names no cap.",
		to: func(c *Config, _ *reader) any { return &c.Limits.DefaultCaps.Leases }},
	{Path: "limits.mints_per_minute", Default: "600", Doc: "Token requests a minute of a task that names no cap.",
		to: func(c *Config, _ *reader) any { return &c.Limits.DefaultCaps.MintsPerMinute }},
	{Path: "limits.open_requests", Default: "3", Doc: "Waiting requests of a task that names no cap.",
		to: func(c *Config, _ *reader) any { return &c.Limits.DefaultCaps.OpenRequests }},
	{Path: "limits.max_leases", Default: "1000000", Doc: "Largest cap a runner may name for leases.",
		to: func(c *Config, _ *reader) any { return &c.Limits.MaxCaps.Leases }},
	{Path: "limits.max_mints_per_minute", Default: "1000000", Doc: "Largest cap a runner may name for token requests.",
		to: func(c *Config, _ *reader) any { return &c.Limits.MaxCaps.MintsPerMinute }},
	{Path: "limits.max_open_requests", Default: "20", Doc: "Largest cap a runner may name for waiting requests.",
		to: func(c *Config, _ *reader) any { return &c.Limits.MaxCaps.OpenRequests }},
	{Path: "limits.runner_tasks", Default: "10000", Doc: "Tasks of one runner that are open or paused.",
		to: func(c *Config, _ *reader) any { return &c.Limits.RunnerTasks }},
	{Path: "limits.owner_per_minute", Default: "6000", Doc: "Token requests a minute of all tasks of one owner.",
		to: func(c *Config, _ *reader) any { return &c.Limits.OwnerPerMin }},
	{Path: "dpop.nonce", Default: "off", Doc: "on = every proof must hold a nonce of this server (RFC 9449 section 8).",
		to: func(c *Config, _ *reader) any { return choice{&c.DPoP.Nonce, []string{"on", "off"}} }},
	{Path: "trusted_proxies", Doc: "CIDRs whose forwarding headers are believed; empty = none.",
		to: func(c *Config, _ *reader) any { return &c.TrustedProxies }},
	{Path: "mcp_compat", Default: "false", Doc: "Announce an authorization_endpoint that refuses, which MCP client libraries insist on.",
		to: func(c *Config, _ *reader) any { return &c.MCPCompat }},
	{Path: "log.level", Default: "info", Doc: "debug, info, warn or error.",
		to: func(c *Config, _ *reader) any {
			return choice{&c.Log.Level, []string{"debug", "info", "warn", "error"}}
		}},
	{Path: "log.format", Default: "auto", Doc: "json, text, or auto: text on a terminal, else json.",
		to: func(c *Config, _ *reader) any { return choice{&c.Log.Format, []string{"auto", "json", "text"}} }},
}
