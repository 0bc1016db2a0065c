// Package http1 is an HTTP/1.1 client (RFC 9112) for one upstream. It does the work of
// [http.Transport] in the goroutine of its caller: a request without a body needs no other
// goroutine, and an idle connection has none. Requests are written and responses are parsed by
// net/http.
package http1
