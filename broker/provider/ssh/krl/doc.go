// Package krl is the format of OpenSSH's key revocation lists: PROTOCOL.krl of OpenSSH 9.2, format
// version 1. It is pure: it converts between bytes and lists.
//
// Marshal writes a List as canonical bytes, in the strings and numbers of RFC 4251 section 5. Parse is
// the strict reader. Revokes tells whether a list revokes a certificate.
//
// The reader refuses unknown content. A partly understood list would accept keys that its other
// part revokes. sshd also refuses such a list.
package krl
