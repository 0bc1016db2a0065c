// Package egress is the forward proxy of a sandbox. It adds credentials to HTTPS requests,
// PostgreSQL sessions and SSH connections, so that the sandbox never holds a credential.
//
// One request passes these steps:
//
//  1. A process in the sandbox connects to the endpoint's socket. The kernel reports the
//     network namespace of that process, and only the registered namespace is admitted.
//  2. The process sends CONNECT and opens TLS inside the tunnel. The certificate is issued by
//     a CA that only this sandbox trusts.
//  3. The request is parsed strictly. A request that two servers can read differently is refused.
//  4. The placeholder in the request names a lease. A request without a placeholder needs a
//     credential-less lease.
//  5. The broker confirms that the lease belongs to the task and is valid (Leases.Use).
//  6. The provider adds the credential to a copy of the request (provider.Injector).
//  7. The audit log records the request. Without an entry nothing is sent.
//  8. The dialer resolves the host once, checks every address, and connects.
//  9. Secrets in the response are replaced by marks before the sandbox receives it.
//  10. When the task or the lease ends, every connection that depends on it is closed.
//
// Credentials of static leases are always injected. Credentials of github, oauth, aws and
// postgres are injected unless the caller asked for a token.
//
// Endpoints and listeners:
//
//	endpoint.go       endpoint: the servers and tunnels of one sandbox
//	endpoints.go      Endpoints: opens, registers and closes endpoints for runners
//	socket.go         the Unix socket of an endpoint and the check of its peers
//	peer_linux.go     network namespace of a peer (Linux 6.11); peer_other.go other systems
//	forwarded.go      sockets of a runner on the same machine, passed by SCM_RIGHTS
//	remote.go         connections of sandboxes on other machines
//	forwarder.go      Forwarder: the runner's side of such connections
//	ca.go             the CA of one sandbox
//
// Requests:
//
//	proxy.go          Proxy: configuration, revocation of tasks and leases
//	base_url.go       requests to a base URL, and the endpoint's description of itself
//	strict.go         refusal of ambiguous HTTP/1.1 framing
//	request.go        one request, from its headers to its response
//	header.go         headers that are removed from requests and responses
//	placeholder.go    where a placeholder may stand in a request
//	credentialless.go leases of requests that need no credential
//	send.go           adding the credential, reading the response
//	body.go           bounds of request bodies, buffering of response bodies
//	websocket.go      requests that become a WebSocket
//	refusal.go        Denial, its reason codes, and the text of a refusal
//	record.go         entries of the audit log, bytes sent per task
//
// Other protocols, connections and secrets:
//
//	session.go        PostgreSQL sessions and their cancellation
//	ssh.go            SSH connections, relayed unchanged
//	dial.go           Dialer: resolves once, checks every address, connects
//	pool.go           connections to upstreams, one credential each; client certificates
//	limits.go         rates and connection limits of sandboxes and tasks
//	revocation.go     disconnecting requests and connections of an ended task or lease
//	secrets.go        secrets that were added to a request or that a response discloses
//	redactors.go      cache of the redactors of each lease
//	seal.go           credentials in responses, replaced by placeholders
//	transcript.go     rules and recording of transcripts
//	conceal.go        masking of secrets in transcripts
//	redact/           finds secrets in responses
//	pgwire/           the PostgreSQL protocol until a session is open
//
// Package stricturl parses URLs strictly. Package transcript stores transcripts. Package owndir
// opens the directory of the sockets.
package egress
