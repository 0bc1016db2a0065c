// Package sshagent is an SSH agent (draft-ietf-sshm-ssh-agent, OpenSSH PROTOCOL.agent) with
// one function: it signs logins of a user with a certificate issued by ebb. Clients never
// get the private key.
//
//	agent.go     Agent, Serve: connections, and the messages that are answered
//	identity.go  Identity: a key, the certificate over it, and its state
//	userauth.go  the only data that is signed: a login request (RFC 4252 section 7)
//	bind.go      the session of a connection (session-bind@openssh.com)
//	hostkeys.go  HostKeys: the keys by which a host is identified
//	message.go   messages on the socket
//
// The agent of x/crypto also accepts private keys, and messages of up to 16 MiB. Clients of
// this agent are untrusted: it implements three messages and refuses all others.
package sshagent
