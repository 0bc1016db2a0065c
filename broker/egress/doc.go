// Package egress is the way out of a sandbox. A tool in a box asks its proxy for a tunnel
// (CONNECT), speaks TLS with it under a CA that only the box trusts, and puts a
// placeholder where a credential belongs. The proxy reads the request so that nobody can
// read it otherwise, asks the broker whether the placeholder's lease is the box's and
// alive, adds the credential, and marks it in whatever comes back. What ends with a task
// or a lease is cut, to its last connection.
//
// What is injected are the credentials of leases that are delivered so: all of static, and
// of github, oauth, aws and postgres what was not asked for as a token.
//
//	box.go          box: the connections of one box, while it is served
//	boxes.go        Boxes: opens a box for a runner, and closes it with its task
//	registered.go   what is done with one that is open: whose namespace it is, its end by hand
//	sockets.go      where its socket is, and what is left there
//	door.go         its socket, and who is let in; peer.go who that is, as the kernel says
//	                (peer_linux.go, peer_other.go); a network namespace by its file (namespace_linux.go, namespace_other.go)
//	forwarded.go    boxes whose runners have the socket, and pass each connection on to their ebb on the same machine
//	handed.go       boxes of other machines: whose connections their runners hand on
//	carry.go        the door of such a box on the machine of its runner, which hands them on; carry_one.go one of them
//	proxy.go        Proxy: serve takes the connections of one box, End cuts
//	serve.go        tunnels: CONNECT, TLS, the servers on both sides of it
//	base.go         requests to a base URL, for tools that take no proxy
//	origin.go       what a box is told of itself
//	strict.go       requests of HTTP/1.1 that are spelled so that they have two readings
//	scheme.go       the :scheme of requests of HTTP/2
//	request.go      one request: what leaves, and what a refusal says
//	placeholder.go  where in a request a placeholder may stand
//	parameter.go    what a parameter of the query is called that holds a credential
//	bare.go         requests that need no credential, and whether a lease may be used still
//	header.go       Clean: what of a request's headers leaves
//	disclosed.go    what looks in answers for credentials that they make
//	seal.go         credentials that answers make and a box goes on to use; answer.go what such an answer may be
//	send.go         the credential is added, the answer is read
//	clean.go        what of an answer's headers goes back
//	secrets.go      what was added to it
//	redactors.go    what looks for that in answers, once for each lease
//	session.go      a session of PostgreSQL: the box logs in here, and ebb at the database
//	sessions.go     the keys by which a box cancels a query, and where it has been without TLS
//	pipe.go         connections of SSH: as they are, to hosts that a lease is for
//	piped.go        which of them a lease that was ended may have opened
//	record.go       what of a request is on the record, and how much its task has sent
//	places.go       connections of boxes and to upstreams: how many a box, a task and all have
//	share.go        what all tasks need and none may have all of
//	free.go         how often a box has ebb do what costs the box nothing
//	flush.go        when parts of an answer go on, and where they are copied
//	body.go         the body of a request on its way out: not too much, not too slow
//	websocket.go    a request that becomes a WebSocket
//	pool.go         connections to upstreams, none with two credentials
//	certificate.go  what those show of the client, and whether it is taken
//	cuts.go         what goes on, by what it lives by
//	ca.go           the CA of one box
//	dial.go         Dialer: connects by name, once resolved, wholly checked; address.go what kind of place an address is
//	reason.go       Denial: why something does not go out, in words of a fixed set
//	transcripts.go  which requests are written down, by rule, and what of them
//	scribe.go       hears what a box says and is told, and has it written down
//	conceal.go      what of it is not written: of any text, and of headers; conceal_body.go  of bodies, by what they are
//	redact/         finds secrets in what comes back
//	pgwire/         PostgreSQL's protocol until a session is open
//
// Where a request goes is read by package exact; whether a credential is for it says
// its provider (provider.Injector, with provider.Upgrader for WebSockets; provider.Connector
// for sessions, provider.Reacher for SSH); whether it lives, the broker (Use, Reach).
// Package transcript keeps what was written down, owndir opens the directory of the sockets.
package egress
