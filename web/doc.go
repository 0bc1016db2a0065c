// Package web is shared by all HTTP surfaces of ebb. The files in the order in
// which they handle a request:
//
//	limits.go      Limits, NewServer: sizes and timeouts of the listener
//	listen.go      ListenTCP, with socket options on Linux (listen_linux.go,
//	               and listen_other.go for other systems);
//	               conns.go  Capped: the limit of open connections
//	socket.go      ListenUnix: a Unix socket in addition to the TCP listener
//	peer.go        Peer: the process that connected to the socket; peer_linux.go
//	               asks the kernel, peer_other.go is for other systems
//	proxies.go     forwarding headers, accepted from configured proxies only
//	own_name.go    OwnName: the console's host name on loopback
//	mux.go         Mux: the outermost handler; routes, spans, security headers
//	middleware.go  request id, panic recovery, one log event
//	metrics.go     metrics of requests, with labels from closed sets
//	event.go       Event: the log event of a request
//	json.go        Decode: strict JSON parsing
//	handle.go      Handle: decode, call, encode
//	errors.go      the table broker.Kind -> status
//	problem.go     errors of /v1 and of unknown routes: RFC 9457
//	oauth.go       errors of /oauth2: RFC 6749 section 5.2
//
// Each surface is a sub-package, such as api. client and verify are the clients
// of the API. Only this package and its sub-packages import echo.
package web
