package config

// egressKeys are the keys of egress.
var egressKeys = []Key{
	{Path: "egress.enabled", Default: "true", Doc: "true = runners can open egress endpoints for sandboxes; credentials that egress can add to requests then stay in ebb unless a token is requested.",
		to: func(c *Config, _ *reader) any { return &c.Egress.Enabled }},
	{Path: "egress.dir", Doc: "Directory (0700) for the sockets of egress endpoints, used by this ebb alone; default data_dir/boxes, or a temporary one if that path is too long.",
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
