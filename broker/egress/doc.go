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
//  7. If the effect of the request depends on its body, the provider reads the body and compares it
//     with the scopes of the lease (provider.ContentJudge). If they do not cover it, steps 5 to 7
//     are repeated for other leases of the caller at this provider.
//  8. The audit log records the request. Without an entry nothing is sent.
//  9. The dialer resolves the host once, checks every address, and connects.
//  10. Secrets in the response are replaced by marks before the sandbox receives it.
//  11. When the task or the lease ends, every connection that depends on it is closed.
//
// Credentials of static leases are always injected. Credentials of github, oauth, aws and
// postgres are injected unless the caller asked for a token.
//
// A request is an outbound from the moment its lease is known until its response has ended. An
// endpoint serves the connections of one sandbox. The Proxy holds the state that endpoints share: limits,
// upstream connections, redactors, and the set of requests in flight. The other types refer
// to none of these three.
//
// Connections reach an endpoint by its own socket, by a runner on the same machine that passes them
// (SCM_RIGHTS), or by a Forwarder on another machine. Besides HTTPS, a tunnel can carry a
// PostgreSQL session, whose password is a placeholder, or an SSH connection, which is relayed
// unchanged. If the provider limits statements, each one is judged before the server receives it. A
// refusal is a Denial with a reason; its text says what to do next.
//
// Package content has the parsers of bodies and statements. Package redact finds secrets in
// responses. Package http1 sends requests to upstreams over HTTP/1.1. Package pgwire speaks the
// PostgreSQL protocol until a session is open. Package stricturl parses URLs strictly. Package
// transcript stores transcripts. Package owndir opens the directory of the sockets.
package egress
