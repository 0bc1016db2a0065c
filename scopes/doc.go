// Package scopes is the grammar of credential permissions (scopes), and their algebra. It is pure: no clock, no I/O, no state.
//
// One scope is `provider:resource:action`, a single RFC 6749 section 3.3 scope-token:
//
//	orders:eu/42:read          one resource, one action
//	orders:eu/*:read           every resource directly below eu
//	orders:eu/**:*             everything below eu (not eu itself), any action
//
//	provider  [a-z][a-z0-9-]{0,31}            the configured provider instance
//	resource  1..16 segments joined by "/"; a segment is 1..64 of [A-Za-z0-9._~@+=,-] and neither "." nor "..",
//	          or "*" (exactly one segment), or, last only, "**" (one or more segments)
//	action    [a-z][a-z0-9_.-]{0,31} or "*"   the provider's name of the action; "*" is any action
//
// A scope is at most 512 bytes, a [Set] at most 64 scopes. A scope denotes the set of concrete provider/path/action
// triples it matches; [Scope.Covers] is inclusion of those, so it is a partial order, and [Set.Narrow] is intersection,
// so it never widens.
//
// The files:
//
//	scope.go    the Scope type: parts, text and JSON form
//	parse.go    text -> Scope, the only place that knows the grammar
//	order.go    Covers, Overlaps and the meet of two scopes
//	set.go      the Set type: canonical form, text and JSON form
//	narrow.go   Set algebra: Covers, Narrow, Merge
//	details.go  RFC 9396 authorization_details of type ebb_credential, to and from a Set
//	uri.go      RFC 8707 resource indicators
//	errors.go   ParseError, shared by all parsers
package scopes
