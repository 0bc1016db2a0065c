package attest

import "crypto"

// MaxDocument is the maximum size of a document in bytes.
const MaxDocument = 64 << 10

// Evidence is the input of one attestation.
type Evidence struct {
	// Attestor is the configured name of the kind instance to ask.
	Attestor string
	// Document is the document as sent, unchecked and possibly hostile: a JWT, a
	// ticket, a signed document. Empty for kinds that judge only the channel.
	Document []byte
	// Method is the OAuth client authentication method that the caller used, "" for
	// none. The pipeline has checked that it is one of the instance's ClientMethods.
	Method string
	// ClientAssertion is true when the document was sent as client_assertion. Its aud
	// must then be ebb and nothing else, even when the configuration accepts other
	// audiences in other places (RFC 7523bis).
	ClientAssertion bool
	// Header is the name of the HTTP header that carried Document, "" for the body.
	// The pipeline has checked that it is the header that the instance configures.
	Header string
	// Channel is what the listener observed of the connection.
	Channel Channel
	// Key is the key whose possession the caller has proved.
	Key Key
}

// Channel is what the listener itself observed of the connection. It contains no
// header, because a client could forge one.
type Channel struct {
	// PeerCertificates is the TLS client chain in DER as the client sent it, leaf
	// first. The client has proved possession of the leaf's key, and Key.X5T is the
	// digest of that leaf. The chain, the names and the dates are unverified: a kind
	// that relies on them verifies them against its own authorities.
	PeerCertificates [][]byte
	// RemoteAddr is host:port of the peer, or the path of a unix socket.
	RemoteAddr string
	// TLS is true when the connection is encrypted.
	TLS bool
	// Peer is the process at the other end of a unix socket, nil elsewhere.
	Peer *Peer
}

// Peer is what the kernel reported about a process when it connected (unix(7),
// SO_PEERCRED and SO_PEERPIDFD). When the descriptor is passed to another process or
// inherited over a fork, Peer still describes the process that connected.
type Peer struct {
	PID      int
	UID, GID uint32
	// PIDFD identifies that process even after its PID has been reused. The listener
	// owns it and closes it after the connection; -1 on kernels without SO_PEERPIDFD
	// (before Linux 6.5).
	PIDFD int
}

// Key is a key whose possession the pipeline has verified. The zero Key means that
// the caller proved none.
type Key struct {
	// JKT is the RFC 7638 thumbprint from a DPoP proof (RFC 9449), "" without one.
	JKT string
	// X5T is the x5t#S256 of the client certificate (RFC 8705), "" without one.
	X5T string
	// Public is the key of JKT; nil without a proof.
	Public crypto.PublicKey
}
