// Package http1 is an HTTP/1.1 client (RFC 9112) for one upstream. It does the work of
// [http.Transport] in the goroutine of its caller: a request without a body needs no other
// goroutine, and an idle connection has none. net/http writes the requests and parses the responses.
package http1
