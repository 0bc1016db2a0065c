// Package pgwire is the server's side of PostgreSQL's protocol (version 3) from the first byte
// of a client to the moment when its session is open. What passes then is not read.
//
//	server.go   Server: what a client says first, its password, that it may begin, why not
//	startup.go  the start-up packet, and which of its parameters are let through
//	refusal.go  Refusal: an error as PostgreSQL reports one
//
// Clients are hostile. Lengths are bounded before anything is read, a packet is read to its end
// and no further, and what comes before it is due is refused: encryption is never begun here, so
// nothing of a client's is ever read under two protections. Time is bounded by who owns the
// connection.
package pgwire
