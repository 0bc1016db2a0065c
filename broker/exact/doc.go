// Package exact reads where an HTTP request goes so that nobody can read it in another
// way: not the server behind a cache, not the cache, not a framework that decodes twice.
// What two of them might take for different things is refused, never made plain: to
// make it plain is to guess which of them is right.
//
//	reason.go  why something was refused: a fixed set of words
//	host.go    host and port, as CONNECT and Host have them
//	path.go    the path, by segments
//	query.go   the query
//	request.go where a whole request goes, and what it asks for
//	rule.go    requests by method and path, as configurations name them
//	header.go  methods, and headers that make a request another one
//
// It is pure, and the one place of these rules: what decides by host or path, here or
// at a provider, asks it.
package exact
