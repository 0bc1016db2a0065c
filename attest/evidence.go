package attest

import "crypto"

// MaxDocument is the largest document, in bytes, that a kind need look at.
const MaxDocument = 64 << 10

// Evidence is one attempt of a caller to say who it is.
type Evidence struct {
	// Attestor is the configured name of the kind instance to ask.
	Attestor string
	// Document as sent: a JWT, a ticket, a signed document. Hostile. Empty for
	// kinds that judge the channel alone.
	Document []byte
	// Method is the OAuth client authentication that the caller says this is, one of
	// ClientAuth; "" when the evidence came another way. The pipeline has compared it.
	Method string
	// ClientAssertion is true when the document came as client_assertion: then its aud is
	// ebb alone, whatever the configuration accepts elsewhere (RFC 7523bis).
	ClientAssertion bool
	// Header is the name of the HTTP header that Document came in, as the instance's
	// configuration has it; "" for the body. The pipeline has compared it.
	Header string
	// Channel is what the listener saw.
	Channel Channel
	// Key is what the caller has proved to hold.
	Key Key
}

// Channel is what the listener knows about the connection by itself. No header
// that a client could write ends up here.
type Channel struct {
	// PeerCertificates is the TLS client chain in DER as the client showed it, leaf
	// first. That it holds the leaf's key was proved, and Key.X5T names that leaf.
	// Nothing else was: no path, no name, no date. A kind that believes more
	// verifies more, by authorities of its own.
	PeerCertificates [][]byte
	// RemoteAddr is host:port of the peer, or the path of a unix socket.
	RemoteAddr string
	// TLS is true when the connection is encrypted.
	TLS bool
	// Peer is the process at the other end of a unix socket, nil elsewhere.
	Peer *Peer
}

// Peer is what the kernel said of a process when it connected (unix(7),
// SO_PEERCRED and SO_PEERPIDFD). A descriptor that was passed on, or kept over a
// fork, still speaks for whoever connected.
type Peer struct {
	PID      int
	UID, GID uint32
	// PIDFD names that very process even when its number has been used again. The
	// listener owns it and closes it after the connection; -1 where the kernel
	// gives none (before Linux 6.5).
	PIDFD int
}

// Key is a key whose possession the pipeline has proved, once. The zero Key
// means that none was.
type Key struct {
	// JKT is the RFC 7638 thumbprint from a DPoP proof (RFC 9449), "" without one.
	JKT string
	// X5T is the x5t#S256 of the client certificate (RFC 8705), "" without one.
	X5T string
	// Public is the key of JKT; nil without a proof.
	Public crypto.PublicKey
}
