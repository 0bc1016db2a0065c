// Package stricturl parses the host, method, path, query and headers of an HTTP request. It refuses
// every form that two servers can read differently, such as a cache and the server behind it, or a
// framework that decodes twice. It never normalizes: to normalize is to guess which reading the
// server will use (RFC 3986 section 6.2; RFC 9110 section 4.2).
//
//	host.go    Host and ParseHost: host and port, as in CONNECT and Host
//	path.go    Path: the path as segments
//	request.go Origin and Target of a whole request; Method, Header, Query; Reason and Error
//	rule.go    Rule: requests by method and path, as a configuration names them
//
// The package is pure. All code that decides by host or path, here or in a driver, uses it.
package stricturl
