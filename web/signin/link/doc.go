// Package link signs in by a single-use link. It is for a person who can
// authenticate to the API with a key on the same machine ('ebb console'). It is
// the sign-in method without an identity provider, on loopback only.
//
//	link.go  Links: New, Make; the Method
package link
