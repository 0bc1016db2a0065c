// Package link signs in by a link that works once: for a person who can already prove to
// the API who they are, by a key on the same machine (`ebb console`). It is the way in
// where no identity provider is configured, on loopback alone.
//
//	link.go  Links: New, Make; the Method
package link
