// Package sshagent is an SSH agent (draft-ietf-sshm-ssh-agent, OpenSSH PROTOCOL.agent) that
// does one thing: it signs logins of a user with a certificate of ebb's, whose private key no
// client of it sees.
//
//	agent.go     Agent, Serve: who comes to its socket, and what it answers
//	identity.go  Identity: a key, the certificate over it, and whether that is alive
//	userauth.go  what may be signed: one request to log in (RFC 4252 section 7)
//	bind.go      which session a connection is for (session-bind@openssh.com)
//	hostkeys.go  HostKeys: how a host proves that it is the one
//	message.go   what goes over the socket
//
// The library's own server reads the private keys of whoever adds one, and messages of 16 MiB.
// Here a client is hostile: of the protocol there are three messages, and all others are refused.
package sshagent
