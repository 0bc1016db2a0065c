// Package krl is the format of OpenSSH's key revocation lists: PROTOCOL.krl of OpenSSH 9.2, format
// version 1. It is pure: it converts between bytes and lists.
//
//	krl.go    List, Certs, Range: the content of a list, and Revokes
//	write.go  Marshal: a list as canonical bytes
//	read.go   Parse: the strict reader
//	wire.go   the strings and numbers of RFC 4251 section 5
//
// The reader refuses unknown content. A partly understood list would accept keys that its other
// part revokes. sshd also refuses such a list.
package krl
