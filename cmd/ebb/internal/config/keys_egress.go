package config

// egressKeys are those of egress.
var egressKeys = []Key{
	{Path: "egress.enabled", Default: "true", Doc: "Open ways out for sandboxes when runners ask; what egress can add to requests then stays in ebb unless it is asked for as a token.",
		to: func(c *Config, _ *reader) any { return &c.Egress.Enabled }},
	{Path: "egress.dir", Doc: "Directory (0700) of this ebb alone for the sockets of boxes; default data_dir/boxes, or a temporary one where that path is too long.",
		to: func(c *Config, _ *reader) any { return &c.Egress.Dir }},
	{Path: "egress.identity", Default: "kernel", Doc: "How a box is known: kernel (who connects is in its network namespace; Linux 6.11), or socket (who has reached its socket).",
		to: func(c *Config, _ *reader) any { return choice{&c.Egress.Identity, []string{"kernel", "socket"}} }},
	{Path: "egress.remote", Default: "false", Doc: "Carry boxes of other machines too: their runner says there who is in them, and hands their connections on, each with its own key.",
		to: func(c *Config, _ *reader) any { return &c.Egress.Remote }},
	{Path: "egress.private_hosts", Doc: "host=CIDR: hosts that sandboxes may reach in a private network, and where there; an address of this machine as /32 or /128. Empty = public addresses alone.",
		to: func(c *Config, _ *reader) any { return &c.Egress.PrivateHosts }},
	{Path: "egress.untrusted_hosts", Doc: "Hosts whose answers others can write: a task that asks one is tainted by egress/<host> before it reads the answer.",
		to: func(c *Config, _ *reader) any { return &c.Egress.UntrustedHosts }},
	{Path: "egress.request_mib", Default: "1024", Doc: "Size of one request's body through egress, and of what is sent in one WebSocket or SSH connection, in MiB; what is larger is cut.",
		to: func(c *Config, _ *reader) any { return &c.Egress.RequestMiB }},
	{Path: "egress.task_mib", Default: "16384", Doc: "What all requests, sessions and connections of one task may send through egress, in MiB.",
		to: func(c *Config, _ *reader) any { return &c.Egress.TaskMiB }},
	{Path: "egress.ca_file", Doc: "PEM file of CAs that vouch for upstreams, beside those of this machine.",
		to: func(c *Config, _ *reader) any { return &c.Egress.CAFile }},
	{Path: "egress.transcripts.rules", Doc: "List of {name, hosts, providers, methods, paths, query, headers, request_bytes, answer_bytes, when_full}: which requests through egress are written down, and what of them; empty = none.",
		to: func(c *Config, r *reader) any { return c.readTranscriptRules(r) }},
	{Path: "egress.transcripts.mib", Default: "256", Doc: "Room in data_dir/transcripts, in MiB; one task has an eighth of it.",
		to: func(c *Config, _ *reader) any { return &c.Egress.TranscriptsMiB }},
	{Path: "egress.transcripts.keep", Default: "168h", Doc: "Age at which a transcript is erased.",
		to: func(c *Config, _ *reader) any { return &c.Egress.TranscriptsKeep }},
}
