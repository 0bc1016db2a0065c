package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Key is one key of the configuration.
type Key struct {
	Path    string // such as "redis.addrs"; Variable(Path) is its variable
	Default string // as in the file; "" = empty
	Doc     string // description, one sentence
	Secret  bool   // only as a variable, never in the file, never printed

	to func(*Config, *reader) any
}

// listOf is a key whose value is a list of mappings.
type listOf func(path string, n ast.Node)

// keys is the table of keys, in the order of the documentation.
var keys = slices.Concat([]Key{
	{Path: "public_url", Doc: "Issuer and base of every URL that ebb announces; default http(s)://<listen>.",
		to: func(c *Config, _ *reader) any { return &c.PublicURL }},
	{Path: "listen", Default: "127.0.0.1:8420", Doc: "Address of the API. Anything but loopback needs tls.cert and tls.key.",
		to: func(c *Config, _ *reader) any { return &c.Listen }},
	{Path: "listen_unix", Doc: "Path of a Unix socket that also serves the API, for attestors of kind unixpeer; a missing directory is created (0700).",
		to: func(c *Config, _ *reader) any { return &c.ListenUnix }},
	{Path: "listen_unix_mode", Default: "0600", Doc: "Mode of the Unix socket: 0600, 0660 or 0666. Every process that can connect may send requests; attestors identify it.",
		to: func(c *Config, _ *reader) any {
			return choice{&c.ListenUnixMode, []string{"0600", "0660", "0666"}}
		}},
	{Path: "tls.cert", Doc: "PEM file of the server certificate chain.",
		to: func(c *Config, _ *reader) any { return &c.TLS.Cert }},
	{Path: "tls.key", Doc: "PEM file of its private key, which other users cannot read.",
		to: func(c *Config, _ *reader) any { return &c.TLS.Key }},
	{Path: "tls.client_ca", Doc: "PEM file of the CAs of client certificates; if set, certificates are requested and tokens can be bound to them (RFC 8705).",
		to: func(c *Config, _ *reader) any { return &c.TLS.ClientCA }},
	{Path: "tls.client_certs", Doc: "`any` = client certificates are requested and every one is accepted: tokens can be bound to them, and attestors such as spiffe verify them; empty = only certificates of tls.client_ca.",
		to: func(c *Config, _ *reader) any { return choice{&c.TLS.ClientCerts, []string{AnyClientCert}} }},
	{Path: "data_dir", Doc: "Directory (0700) of keys and SQLite; default $XDG_DATA_HOME/ebb, else ~/.local/share/ebb.",
		to: func(c *Config, _ *reader) any { return &c.DataDir }},
	{Path: "database", Doc: "Database: empty = SQLite in data_dir, or postgres://user@host/name without a password.",
		to: func(c *Config, _ *reader) any { return &c.Database }},
	{Path: "database_password_file", Doc: "File with the database password, which other users cannot read.",
		to: func(c *Config, _ *reader) any { return &c.databasePasswordFile }},
	{Path: "database_password", Secret: true, Doc: "The database password itself, from the environment only.",
		to: func(c *Config, _ *reader) any { return secretKey{&c.databasePassword} }},
	{Path: "redis.addrs", Doc: "Redis for live state: empty = live state in this process; else one host:port, the Sentinels, or the seeds of a Cluster.",
		to: func(c *Config, _ *reader) any { return &c.Redis.Addrs }},
	{Path: "redis.master_name", Doc: "Name of the master; set it if redis.addrs are Sentinels.",
		to: func(c *Config, _ *reader) any { return &c.Redis.MasterName }},
	{Path: "redis.username", Doc: "ACL user.",
		to: func(c *Config, _ *reader) any { return &c.Redis.Username }},
	{Path: "redis.password_file", Doc: "File with the Redis password, which other users cannot read.",
		to: func(c *Config, _ *reader) any { return &c.Redis.passwordFile }},
	{Path: "redis.password", Secret: true, Doc: "The Redis password itself, from the environment only.",
		to: func(c *Config, _ *reader) any { return secretKey{&c.Redis.password} }},
	{Path: "redis.cluster", Default: "false", Doc: "true = the single address in redis.addrs is the configuration endpoint of a Cluster; several addresses without master_name are always a Cluster.",
		to: func(c *Config, _ *reader) any { return &c.Redis.Cluster }},
	{Path: "redis.sentinel_username", Doc: "ACL user at the Sentinels.",
		to: func(c *Config, _ *reader) any { return &c.Redis.SentinelUsername }},
	{Path: "redis.sentinel_password_file", Doc: "File with the Sentinels' password, which other users cannot read.",
		to: func(c *Config, _ *reader) any { return &c.Redis.sentinelPasswordFile }},
	{Path: "redis.sentinel_password", Secret: true, Doc: "The Sentinels' password itself, from the environment only.",
		to: func(c *Config, _ *reader) any { return secretKey{&c.Redis.sentinelPassword} }},
	{Path: "redis.prefix", Default: "ebb", Doc: "First part of every key in Redis.",
		to: func(c *Config, _ *reader) any { return &c.Redis.Prefix }},
	{Path: "redis.tls", Default: "false", Doc: "Connect to Redis with TLS.",
		to: func(c *Config, _ *reader) any { return &c.Redis.TLS }},
	{Path: "redis.ca_file", Doc: "PEM file of the CA of Redis; empty = the system's.",
		to: func(c *Config, _ *reader) any { return &c.Redis.CAFile }},
	{Path: "redis.wait_replicas", Default: "0", Doc: "Number of Redis replicas that must confirm the end of a task or lease.",
		to: func(c *Config, _ *reader) any { return &c.Redis.WaitReplicas }},
	{Path: "policy_source", Default: PolicyFiles, Doc: "Source of policies: files (policy_dir, or the built-in starter policy), or database (operators draft and publish them in the console, beginning with the starter policy).",
		to: func(c *Config, _ *reader) any {
			return choice{&c.PolicySource, []string{PolicyFiles, PolicyDatabase}}
		}},
	{Path: "policy_dir", Doc: "Directory of Cedar policies, reloaded on changes; empty = the built-in starter policy (`ebb policy show`).",
		to: func(c *Config, _ *reader) any { return &c.PolicyDir }},
	{Path: "attestors", Doc: "List of {name, kind, on_sandbox_exit, reattest, on_missed_attestation, evidence_header, config}: the attestors that identify sandboxes; one named enroll always exists.",
		to: func(c *Config, r *reader) any { return c.readAttestors(r) }},
	{Path: "providers", Doc: "List of {name, kind, resource, max_ttl, parallel, max_live, reversible, irreversible, config}: the providers that mint credentials; empty = one named local of kind jwt, whose actions create, update and write count as reversible.",
		to: func(c *Config, r *reader) any { return c.readProviders(r) }},
	{Path: "principals", Doc: "List of {id, roles, groups, scopes, audiences, keys, match}; empty = local-operator, local-approver and, without providers, local-resource-server; configured principals replace these.",
		to: func(c *Config, r *reader) any { return c.readPrincipals(r) }},
	{Path: "signing.alg", Default: "ES256", Doc: "Signature algorithm of ebb's own tokens: ES256, EdDSA or RS256.",
		to: func(c *Config, _ *reader) any {
			return choice{&c.Signing.Alg, []string{"ES256", "EdDSA", "RS256"}}
		}},
	{Path: "signing.rotate_every", Default: "720h", Doc: "Age at which a signing key is replaced.",
		to: func(c *Config, _ *reader) any { return &c.Signing.RotateEvery }},
	{Path: "signing.lead", Default: "1h", Doc: "Time for which a new key is published before it signs.",
		to: func(c *Config, _ *reader) any { return &c.Signing.Lead }},
	{Path: "signing.overlap", Default: "25h", Doc: "Time for which a key stays published after its last signature; at least the longest token lifetime.",
		to: func(c *Config, _ *reader) any { return &c.Signing.Overlap }},
	{Path: "signing.keys_dir", Doc: "Directory (0700) of signing keys; default data_dir/keys. Replicas share it.",
		to: func(c *Config, _ *reader) any { return &c.Signing.KeysDir }},
	{Path: "sealing.kind", Default: "file", Doc: "Store of the key that encrypts revocation handles: file, transit (Vault, OpenBao), or kms (AWS).",
		to: func(c *Config, _ *reader) any { return choice{&c.Sealing.Kind, []string{"file", "transit", "kms"}} }},
	{Path: "sealing.config", Doc: "Configuration of the kind; default {path: data_dir/sealing.pem}. Replicas share the key; without it pending revocations at providers wait.",
		to: func(c *Config, r *reader) any {
			return listOf(func(path string, n ast.Node) { r.assign(path, n, &c.Sealing.Config) })
		}},
	{Path: "sealing.previous", Doc: "Previous key, {kind, config}: handles encrypted with it can still be read, and are encrypted again with the new key.",
		to: func(c *Config, r *reader) any {
			return listOf(func(path string, n ast.Node) { r.assign(path, n, &c.Sealing.Previous) })
		}},
	{Path: "instance", Doc: "8 hex digits that identify this installation at third parties; default: derived from public_url. Replicas have the same.",
		to: func(c *Config, _ *reader) any { return &c.Instance }},
	{Path: "limits.default_token_ttl", Default: "15m", Doc: "Lifetime of a token if the client requests none.",
		to: func(c *Config, _ *reader) any { return &c.Limits.DefaultTTL }},
	{Path: "limits.token_ttl", Default: "1h", Doc: "Longest lifetime of a token.",
		to: func(c *Config, _ *reader) any { return &c.Limits.MaxTTL }},
	{Path: "limits.task_ttl", Default: "24h", Doc: "Longest lifetime of a task.",
		to: func(c *Config, _ *reader) any { return &c.Limits.MaxTaskTTL }},
	{Path: "limits.ticket_ttl", Default: "60s", Doc: "Default lifetime of an enrolment ticket, at most 60s; a runner can request up to 15m.",
		to: func(c *Config, _ *reader) any { return &c.Limits.TicketTTL }},
	{Path: "limits.principal_ttl", Default: "10m", Doc: "Lifetime of a principal's token for /v1.",
		to: func(c *Config, _ *reader) any { return &c.Limits.PrincipalTTL }},
	{Path: "limits.request_ttl", Default: "30m", Doc: "Time for which a request waits for an approval; a request without an answer by then is denied.",
		to: func(c *Config, _ *reader) any { return &c.Limits.RequestTTL }},
	{Path: "limits.grant_ttl", Default: "15m", Doc: "Longest time for which an approval is reused within its task, at most 1h; a shorter approved token lifetime ends it earlier.",
		to: func(c *Config, _ *reader) any { return &c.Limits.GrantTTL }},
	{Path: "limits.cool_down", Default: "15m", Doc: "Time for which the same request is refused after a denial.",
		to: func(c *Config, _ *reader) any { return &c.Limits.CoolDown }},
	{Path: "limits.poll_interval", Default: "5s", Doc: "Shortest interval at which a waiting client may poll.",
		to: func(c *Config, _ *reader) any { return &c.Limits.PollInterval }},
	{Path: "limits.checkpoint", Default: "1m", Doc: "Interval between signed checkpoints of the audit log.",
		to: func(c *Config, _ *reader) any { return &c.Limits.Checkpoint }},
	{Path: "limits.sweep", Default: "10m", Doc: "Interval between searches at providers for credentials that ebb has no live record of.",
		to: func(c *Config, _ *reader) any { return &c.Limits.Sweep }},
	{Path: "limits.leases", Default: "1000", Doc: "Live credentials of a task whose runner sets no limit.",
		to: func(c *Config, _ *reader) any { return &c.Limits.DefaultCaps.Leases }},
	{Path: "limits.mints_per_minute", Default: "600", Doc: "Token requests per minute of a task whose runner sets no limit.",
		to: func(c *Config, _ *reader) any { return &c.Limits.DefaultCaps.MintsPerMinute }},
	{Path: "limits.open_requests", Default: "3", Doc: "Requests of a task that wait for an approval, if its runner sets no limit.",
		to: func(c *Config, _ *reader) any { return &c.Limits.DefaultCaps.OpenRequests }},
	{Path: "limits.max_leases", Default: "1000000", Doc: "Largest limit a runner may set for live credentials.",
		to: func(c *Config, _ *reader) any { return &c.Limits.MaxCaps.Leases }},
	{Path: "limits.max_mints_per_minute", Default: "1000000", Doc: "Largest limit a runner may set for token requests per minute.",
		to: func(c *Config, _ *reader) any { return &c.Limits.MaxCaps.MintsPerMinute }},
	{Path: "limits.max_open_requests", Default: "20", Doc: "Largest limit a runner may set for requests that wait for an approval.",
		to: func(c *Config, _ *reader) any { return &c.Limits.MaxCaps.OpenRequests }},
	{Path: "limits.runner_tasks", Default: "10000", Doc: "Open or paused tasks of one runner.",
		to: func(c *Config, _ *reader) any { return &c.Limits.RunnerTasks }},
	{Path: "limits.owner_per_minute", Default: "6000", Doc: "Token requests per minute of all tasks of one owner.",
		to: func(c *Config, _ *reader) any { return &c.Limits.OwnerPerMin }},
	{Path: "limits.owner_requests", Default: "10", Doc: "Requests of one owner that need an approval, per hour.",
		to: func(c *Config, _ *reader) any { return &c.Limits.OwnerRequests }},
	{Path: "limits.denials_in_row", Default: "3", Doc: "Consecutive denials by approvers after which ebb pauses a task.",
		to: func(c *Config, _ *reader) any { return &c.Limits.DenialsInRow }},
	{Path: "limits.denials", Default: "20", Doc: "Denials of one task, by policy or approvers; ebb pauses the task after every such number.",
		to: func(c *Config, _ *reader) any { return &c.Limits.Denials }},
	{Path: "limits.asks", Default: "10", Doc: "Requests of one task that need an approval, per 10 minutes; ebb pauses a task with more.",
		to: func(c *Config, _ *reader) any { return &c.Limits.Asks }},
	{Path: "limits.owner_live", Default: "100000", Doc: "Live credentials of all tasks of one owner.",
		to: func(c *Config, _ *reader) any { return &c.Limits.OwnerLive }},
	{Path: "limits.uses_per_minute", Default: "6000", Doc: "Requests per minute of one task to which egress adds a credential.",
		to: func(c *Config, _ *reader) any { return &c.Limits.UsesPerMinute }},
	{Path: "limits.judgements", Default: "16", Doc: "Concurrent verifications of evidence by an attestor that calls other systems; one address or local user may use at most half of them.",
		to: func(c *Config, _ *reader) any { return &c.Limits.Judging }},
	{Path: "limits.judgements_per_second", Default: "100", Doc: "Such verifications per second; one address or local user may use a quarter of them, one task a tenth.",
		to: func(c *Config, _ *reader) any { return &c.Limits.JudgedPerSec }},
	{Path: "limits.high_risk_quorum", Default: "0", Doc: "Number of approvals that a request of high risk needs; 0 = two, or all approvers if there are fewer.",
		to: func(c *Config, _ *reader) any { return &c.Limits.HighRiskQuorum }},
	{Path: "dpop.nonce", Default: "off", Doc: "on = every proof must contain a nonce of this server (RFC 9449 section 8).",
		to: func(c *Config, _ *reader) any { return choice{&c.DPoP.Nonce, []string{"on", "off"}} }},
	{Path: "console.oidc.issuer", Doc: "OpenID Connect provider that signs people in to the console; empty = people sign in only by links, on loopback. The redirect URI is <public_url>/signin/oidc/callback; on loopback `ebb doctor` prints the console's address.",
		to: func(c *Config, _ *reader) any { return &c.Console.OIDC.Issuer }},
	{Path: "console.oidc.name", Default: "sso", Doc: "Name of the provider, and first part of people's IDs: sso:<sub>.",
		to: func(c *Config, _ *reader) any { return &c.Console.OIDC.Name }},
	{Path: "console.oidc.client_id", Doc: "ebb's client ID at the provider.",
		to: func(c *Config, _ *reader) any { return &c.Console.OIDC.ClientID }},
	{Path: "console.oidc.client_secret_file", Doc: "File with the client secret, which other users cannot read.",
		to: func(c *Config, _ *reader) any { return &c.Console.OIDC.clientSecretFile }},
	{Path: "console.oidc.client_secret", Secret: true, Doc: "The client secret itself, from the environment only.",
		to: func(c *Config, _ *reader) any { return secretKey{&c.Console.OIDC.clientSecret} }},
	{Path: "console.oidc.scopes", Default: "openid,profile,email", Doc: "Requested scopes; some providers return groups only with a scope of that name.",
		to: func(c *Config, _ *reader) any { return &c.Console.OIDC.Scopes }},
	{Path: "console.oidc.groups_claim", Default: "groups", Doc: "Claim with a person's groups, which console.roles and the approver groups of policies name.",
		to: func(c *Config, _ *reader) any { return &c.Console.OIDC.GroupsClaim }},
	{Path: "console.oidc.name_claim", Default: "name", Doc: "Claim with a person's display name.",
		to: func(c *Config, _ *reader) any { return &c.Console.OIDC.NameClaim }},
	{Path: "console.oidc.subject_claim", Default: "sub", Doc: "Claim that identifies a person; email must be verified by the provider.",
		to: func(c *Config, _ *reader) any { return &c.Console.OIDC.SubjectClaim }},
	{Path: "console.oidc.acr_values", Doc: "Authentication levels (acr, such as phr) that are sufficient to approve; empty = any recent sign-in.",
		to: func(c *Config, _ *reader) any { return &c.Console.OIDC.ACRValues }},
	{Path: "console.oidc.allow_private_addresses", Default: "false", Doc: "true = the provider's host names may resolve to private addresses.",
		to: func(c *Config, _ *reader) any { return &c.Console.OIDC.Private }},
	{Path: "console.proof.low", Default: "recent", Doc: "Proof required to approve a request of low risk: recent (signed in within 10 minutes), passkey_if_any (a passkey, if the person has one) or passkey.",
		to: func(c *Config, _ *reader) any {
			return choice{&c.Console.Proof.Low, []string{"recent", "passkey_if_any", "passkey"}}
		}},
	{Path: "console.proof.medium", Default: "passkey_if_any", Doc: "Proof required at medium risk: passkey_if_any or passkey.",
		to: func(c *Config, _ *reader) any {
			return choice{&c.Console.Proof.Medium, []string{"passkey_if_any", "passkey"}}
		}},
	{Path: "console.proof.high", Default: "passkey_if_any", Doc: "Proof required at high risk, in addition to typing the target's name and a second person's approval.",
		to: func(c *Config, _ *reader) any {
			return choice{&c.Console.Proof.High, []string{"passkey_if_any", "passkey"}}
		}},
	{Path: "console.break_glass.groups", Doc: "Groups whose members may approve alone in an emergency, after a proof and for a short time; if console.break_glass.people is empty too, no person may.",
		to: func(c *Config, _ *reader) any { return &c.Console.BreakGlass.Groups }},
	{Path: "console.break_glass.people", Doc: "IDs of people with the right to approve alone in an emergency, such as ann or sso:<sub>. Runners never may.",
		to: func(c *Config, _ *reader) any { return &c.Console.BreakGlass.People }},
	{Path: "console.break_glass.ttl", Default: "30m", Doc: "Length of one emergency period; at most 30m.",
		to: func(c *Config, _ *reader) any { return &c.Console.BreakGlass.TTL }},
	{Path: "console.break_glass.approvals", Default: "5", Doc: "Maximum number of approvals in one emergency period.",
		to: func(c *Config, _ *reader) any { return &c.Console.BreakGlass.Decisions }},
	{Path: "console.break_glass.per_day", Default: "3", Doc: "Maximum number of emergency periods that one person may begin in 24 hours.",
		to: func(c *Config, _ *reader) any { return &c.Console.BreakGlass.PerDay }},
	{Path: "console.roles.viewer", Doc: "Groups whose members may see requests, tasks and credentials, but not the audit log, and may decide nothing.",
		to: func(c *Config, _ *reader) any { return &c.Console.Roles.Viewer }},
	{Path: "console.roles.approver", Doc: "Groups whose members may decide requests that policy routes to one of their groups; {group, scopes} = only requests covered by the scopes.",
		to: func(c *Config, r *reader) any { return c.readApprovers(r) }},
	{Path: "console.roles.auditor", Doc: "Groups whose members may read everything.",
		to: func(c *Config, _ *reader) any { return &c.Console.Roles.Auditor }},
	{Path: "console.roles.operator", Doc: "Groups whose members may do everything except approve.",
		to: func(c *Config, _ *reader) any { return &c.Console.Roles.Operator }},
	{Path: "notify.channels", Doc: "List of {name, kind, config}: channels for notifications of waiting requests; kinds are email, slack, teams, webhook and webpush; empty = no notifications.",
		to: func(c *Config, r *reader) any { return c.readChannels(r) }},
	{Path: "notify.routes", Doc: "List of {events, groups, providers, min_risk, channels, escalate, escalate_groups}: which events go to which channels.",
		to: func(c *Config, r *reader) any { return c.readRoutes(r) }},
	{Path: "notify.digest", Default: "15m", Doc: "Interval between digests of events that are not notified at once.",
		to: func(c *Config, _ *reader) any { return &c.Notify.Digest }},
	{Path: "notify.at_once", Default: "20", Doc: "Immediate messages to one recipient between two digests; further ones wait for the digest.",
		to: func(c *Config, _ *reader) any { return &c.Notify.AtOnce }},
}, egressKeys, []Key{
	{Path: "trusted_proxies", Doc: "CIDRs of proxies whose forwarding headers are trusted; empty = none.",
		to: func(c *Config, _ *reader) any { return &c.TrustedProxies }},
	{Path: "log.level", Default: "info", Doc: "debug, info, warn or error.",
		to: func(c *Config, _ *reader) any {
			return choice{&c.Log.Level, []string{"debug", "info", "warn", "error"}}
		}},
	{Path: "log.format", Default: "auto", Doc: "json, text, or auto: text on a terminal, else json.",
		to: func(c *Config, _ *reader) any { return choice{&c.Log.Format, []string{"auto", "json", "text"}} }},
})

// egressKeys are the keys of egress.
var egressKeys = []Key{
	{Path: "egress.enabled", Default: "true", Doc: "true = runners can open egress endpoints for sandboxes; credentials that egress can add to requests then stay in ebb unless a token is requested.",
		to: func(c *Config, _ *reader) any { return &c.Egress.Enabled }},
	{Path: "egress.dir", Doc: "Directory (0700) for the sockets of egress endpoints, used by this ebb alone; default data_dir/egress, or a temporary one if that path is too long.",
		to: func(c *Config, _ *reader) any { return &c.Egress.Dir }},
	{Path: "egress.identity", Default: "kernel", Doc: "How a sandbox is identified: kernel (by the network namespace of the connecting process; Linux 6.11), or socket (by the socket that it connects to).",
		to: func(c *Config, _ *reader) any { return choice{&c.Egress.Identity, []string{"kernel", "socket"}} }},
	{Path: "egress.remote", Default: "false", Doc: "true = also accept sandboxes on other machines: their runner identifies the processes there and forwards their connections, each authenticated with its own key.",
		to: func(c *Config, _ *reader) any { return &c.Egress.Remote }},
	{Path: "egress.private_hosts", Doc: "List of host=CIDR: hosts in private networks that sandboxes may reach, and their addresses; an address of this machine must be a /32 or /128. Empty = only public addresses.",
		to: func(c *Config, _ *reader) any { return &c.Egress.PrivateHosts }},
	{Path: "egress.untrusted_hosts", Doc: "Hosts whose responses third parties can write: a task that sends a request to one is tainted by egress/<host> before it reads the response.",
		to: func(c *Config, _ *reader) any { return &c.Egress.UntrustedHosts }},
	{Path: "egress.request_mib", Default: "1024", Doc: "Maximum size in MiB of one request's body, and of the data sent in one WebSocket or SSH connection; larger ones are cut off.",
		to: func(c *Config, _ *reader) any { return &c.Egress.RequestMiB }},
	{Path: "egress.task_mib", Default: "16384", Doc: "Maximum amount of data in MiB that one task may send through egress.",
		to: func(c *Config, _ *reader) any { return &c.Egress.TaskMiB }},
	{Path: "egress.ca_file", Doc: "PEM file of CAs of upstreams, in addition to those of this machine.",
		to: func(c *Config, _ *reader) any { return &c.Egress.CAFile }},
	{Path: "egress.transcripts.rules", Doc: "List of {name, hosts, providers, methods, paths, query, headers, request_bytes, answer_bytes, when_full}: which requests through egress are recorded, and which parts of them; empty = none.",
		to: func(c *Config, r *reader) any { return c.readTranscriptRules(r) }},
	{Path: "egress.transcripts.mib", Default: "256", Doc: "Maximum size of data_dir/transcripts in MiB; one task may use an eighth of it.",
		to: func(c *Config, _ *reader) any { return &c.Egress.TranscriptsMiB }},
	{Path: "egress.transcripts.keep", Default: "168h", Doc: "Age at which a transcript is deleted.",
		to: func(c *Config, _ *reader) any { return &c.Egress.TranscriptsKeep }},
}

// Help writes the table of keys as text.
func Help(w io.Writer) {
	for _, k := range keys {
		name := k.Path
		if k.Secret {
			name = "-"
		}
		fmt.Fprintf(w, "  %-24s %-30s %s\n", name, Variable(k.Path), cmp.Or(k.Default, "-"))
		fmt.Fprintf(w, "      %s\n", k.Doc)
	}
}

// Markdown writes the table of keys for README.md.
func Markdown(w io.Writer) {
	fmt.Fprintln(w, "| key | variable | default | meaning |")
	fmt.Fprintln(w, "| --- | --- | --- | --- |")
	for _, k := range keys {
		name, def := "`"+k.Path+"`", ""
		if k.Secret {
			name = ""
		}
		if k.Default != "" {
			def = "`" + k.Default + "`"
		}
		fmt.Fprintf(w, "| %s | `%s` | %s | %s |\n", name, Variable(k.Path), def, strings.ReplaceAll(k.Doc, "|", "\\|"))
	}
}
