// Package sshagent is an SSH agent (draft-ietf-sshm-ssh-agent, OpenSSH PROTOCOL.agent) with
// one function: it signs logins of a user with a certificate issued by ebb. Clients never
// get the private key.
//
// An Agent serves connections and answers three messages. An Identity is a key, the certificate over
// it, and its state. The only data that is signed is a login request (RFC 4252 section 7), in the
// session to which the client has bound the connection (session-bind@openssh.com). HostKeys are the
// keys by which a host is identified.
//
// The agent of x/crypto also accepts private keys, and messages of up to 16 MiB. Clients of
// this agent are untrusted: it implements three messages and refuses all others.
package sshagent
