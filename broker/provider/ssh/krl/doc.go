// Package krl is the format of OpenSSH's key revocation lists: PROTOCOL.krl of
// OpenSSH 9.2, format version 1. It is pure: bytes to lists and back.
//
//	krl.go    List, Certs, Range: what a list says, and Revokes
//	write.go  Marshal: a list as canonical bytes
//	read.go   Parse: the strict reader
//	wire.go   the strings and numbers of RFC 4251 section 5
//
// The reader refuses what it does not know: a list that is half understood would
// let through what the other half refuses. sshd does the same.
package krl
