package clientcert

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Certificate is a chain and the private key of its first certificate. It prints, logs and
// marshals as "[redacted]". nil stands for none.
type Certificate struct {
	id       [sha256.Size]byte
	shown    *tls.Certificate
	key      []byte // DER, as in the text
	notAfter time.Time
}

const redacted = "[redacted]"

// ID tells certificates apart, keys and chains included; that of nil is zero.
func (c *Certificate) ID() [sha256.Size]byte {
	if c == nil {
		return [sha256.Size]byte{}
	}
	return c.id
}

// Show is what a handshake takes: the key is in it. nil = nothing is shown.
func (c *Certificate) Show() *tls.Certificate {
	if c == nil {
		return nil
	}
	return c.shown
}

// Soon is how long before its end a certificate is worth a word to the operator.
const Soon = 14 * 24 * time.Hour

// NotAfter is when the one of the chain expires that does so first.
func (c *Certificate) NotAfter() time.Time { return c.notAfter }

// line is how many bytes stand in one line of PEM (RFC 7468 section 2).
const line = 48

// Secrets are the pieces of the key to look for in texts: those that stand in one line of PEM
// each, so that the file is found as well as its DER, in one piece or encoded as a whole. What
// is in the certificate, too, is public.
func (c *Certificate) Secrets() []string {
	if c == nil {
		return nil
	}
	var out []string
	for der := c.key; len(der) > 0; der = der[min(line, len(der)):] {
		if piece := der[:min(line, len(der))]; !bytes.Contains(c.shown.Leaf.RawSubjectPublicKeyInfo, piece) {
			out = append(out, string(piece))
		}
	}
	return out
}

// String implements fmt.Stringer.
func (c *Certificate) String() string { return redacted }

// Format implements fmt.Formatter, so that no verb reaches the key.
func (c *Certificate) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements slog.LogValuer.
func (c *Certificate) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler.
func (c *Certificate) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// span is when all of a chain is good.
func span(chain []*x509.Certificate) (from, to time.Time) {
	from, to = chain[0].NotBefore, chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotBefore.After(from) {
			from = c.NotBefore
		}
		if c.NotAfter.Before(to) {
			to = c.NotAfter
		}
	}
	return from, to
}
