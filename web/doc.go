// Package web is what every HTTP surface of ebb shares, so that no handler can
// forget it. The path of one request:
//
//	limits.go      Limits, NewServer: sizes and timeouts of the listener
//	listen.go      ListenTCP, with what Linux has for it in listen_linux.go, and
//	               nothing in listen_other.go; conns.go  Capped: how many connections
//	               a listener takes
//	socket.go      ListenUnix: a unix socket beside the TCP listener
//	peer.go        Peer: the process that connected to it; peer_linux.go asks the
//	               kernel, peer_other.go is for systems that do not say
//	proxies.go     forwarding headers survive only from configured proxies
//	own_name.go    OwnName: the host name that pages have on loopback
//	mux.go         Mux: the outermost handler; routes, spans, security headers
//	middleware.go  request id, panic recovery, one log event
//	metrics.go     metrics of requests, with labels from closed sets
//	event.go       Event: what a handler adds to that log event
//	json.go        Decode: strict JSON in
//	handle.go      Handle: decode, call, encode
//	errors.go      the one table broker.Kind -> status
//	problem.go     errors of /v1 and of unknown routes: RFC 9457
//	oauth.go       errors of /oauth2: RFC 6749 section 5.2
//
// A kind of surface is a sub-folder, such as api. client and verify are the other
// ends of the wire, load is what puts a server under load. echo is known here and below and nowhere else.
package web
