// Package egress is what stands between a sandbox and the rest of the world. It is
// under construction: what is here are the parts that decide where a request may go and
// what of it goes there.
//
//	reason.go   Denial: why something does not go out, in words of a fixed set
//	address.go  what kind of place an address is
//	dial.go     Dialer: connects by name, once resolved, wholly checked
//	header.go   Clean: what of a request's headers leaves
//	redact/     finds secrets in what comes back
//
// Where a request goes is read by package exact; whether a credential is for it says
// its provider (provider.Injector).
package egress
