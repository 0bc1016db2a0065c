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
	// Channel is what the listener saw.
	Channel Channel
	// Key is what the caller has proved to hold.
	Key Key
}

// Channel is what the listener knows about the connection by itself. No header
// that a client could write ends up here.
type Channel struct {
	// PeerCertificates is the verified TLS client chain in DER, leaf first.
	PeerCertificates [][]byte
	// RemoteAddr is host:port of the peer, or the path of a unix socket.
	RemoteAddr string
	// TLS is true when the connection is encrypted.
	TLS bool
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
