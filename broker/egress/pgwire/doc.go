// Package pgwire is the server side of the PostgreSQL protocol (version 3), from the first byte of
// a client until its session is open. It does not read the data of an open session.
//
//	server.go   Server: first request, password, session ready, refusal
//	startup.go  the startup packet, and which of its parameters are allowed
//	refusal.go  Refusal: an error as PostgreSQL reports one
//
// Clients are hostile. Lengths are checked before anything is read, a packet is read to its end and
// no further, and early packets are refused. Encryption is never started here, so that data sent
// before it can never count as sent under it. The owner of the connection limits the time.
package pgwire
