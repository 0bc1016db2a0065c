package clientcert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of a text: bytes and certificates.
const (
	maxText  = 32 << 10
	maxChain = 8
)

// The accepted sizes of RSA keys in bits. Servers refuse shorter keys, and longer keys make each
// handshake too slow.
const minRSA, maxRSA = 2048, 4096

// ErrUnusable is wrapped when a text is no certificate that can be shown. Its text holds
// nothing of the key.
var ErrUnusable = errors.New("the client certificate cannot be used")

func unusable(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrUnusable, fmt.Sprintf(format, a...))
}

// Parse reads PEM (RFC 7468): the certificate, those that lead to its authority in order, and
// one private key anywhere among them, which is not encrypted; nothing else. The certificate
// is for clients and for now.
func Parse(text string, now time.Time) (*Certificate, error) {
	if len(text) > maxText {
		return nil, unusable("it has more than %d bytes", maxText)
	}
	blocks, err := split(text)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	var signer crypto.Signer
	c := &Certificate{id: sha256.Sum256([]byte(text)), shown: &tls.Certificate{}}
	for _, b := range blocks {
		if b.Type == "CERTIFICATE" {
			one, err := x509.ParseCertificate(b.Bytes)
			if err != nil || len(chain) == maxChain {
				return nil, unusable("certificate %d cannot be read, or is one too many", len(chain)+1)
			}
			chain, c.shown.Certificate = append(chain, one), append(c.shown.Certificate, b.Bytes)
			continue
		}
		key, err := keyOf(b)
		if err != nil {
			return nil, err
		}
		if signer != nil {
			return nil, unusable("it holds more than one private key")
		}
		signer, c.key = key, b.Bytes
	}
	if len(chain) == 0 || signer == nil {
		return nil, unusable("it needs a certificate and its private key, both as PEM in one file")
	}
	c.shown.Leaf, c.shown.PrivateKey = chain[0], signer
	from, to := span(chain)
	if c.notAfter = to; !now.Before(to) {
		return nil, unusable("it, or one of its chain, has expired on %s", to.UTC().Format(time.DateOnly))
	}
	if now.Before(from) {
		return nil, unusable("it, or one of its chain, is not good before %s", from.UTC().Format(time.RFC3339))
	}
	if err := fits(chain, signer); err != nil {
		return nil, err
	}
	return c, nil
}

// fits checks that the key matches the leaf, that the chain is in order, and that the leaf may be
// used for client authentication.
func fits(chain []*x509.Certificate, signer crypto.Signer) error {
	leaf := chain[0]
	public, is := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !is || !public.Equal(leaf.PublicKey) {
		return unusable("the private key does not match the first certificate")
	}
	for i, c := range chain[1:] {
		if !bytes.Equal(chain[i].RawIssuer, c.RawSubject) {
			return unusable("certificate %d is not the issuer of the one before it", i+2)
		}
	}
	// RFC 5280 section 4.2.1.12: without the extension it is for everything.
	said := len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0
	if said && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return unusable("it is not for clients: its extended key usage lacks clientAuth")
	}
	// RFC 8446 section 4.4.2.3.
	if leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return unusable("its key usage lacks digitalSignature")
	}
	return nil
}

// split returns the PEM blocks of text. It refuses any other text, which a decoder would skip,
// because a skipped part can be one that the operator needs.
func split(text string) (blocks []*pem.Block, err error) {
	rest := bytes.TrimSpace([]byte(text))
	for len(rest) > 0 {
		b, after := pem.Decode(rest)
		if b == nil || !bytes.HasPrefix(rest, []byte("-----BEGIN ")) || bytes.Count(rest[:len(rest)-len(after)], []byte("-----BEGIN ")) != 1 {
			return nil, unusable("it holds something other than whole PEM blocks: leave out all that stands outside of them")
		}
		if strings.HasPrefix(b.Type, "ENCRYPTED ") || b.Headers["Proc-Type"] != "" {
			return nil, unusable("its private key is encrypted: take the passphrase off (openssl pkey); ebb seals it")
		}
		if len(b.Headers) > 0 {
			return nil, unusable("a PEM block in it has headers")
		}
		blocks, rest = append(blocks, b), bytes.TrimSpace(after)
	}
	return blocks, nil
}

// keyOf reads a private key by what its block says that it is.
func keyOf(b *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch b.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(b.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(b.Bytes)
	default:
		return nil, unusable("it holds a PEM block that is neither CERTIFICATE nor PRIVATE KEY")
	}
	if err != nil { // which could quote it
		return nil, unusable("its private key cannot be read")
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if n := k.N.BitLen(); n < minRSA || n > maxRSA {
			return nil, unusable("its RSA key has %d bits, not %d to %d", n, minRSA, maxRSA)
		}
		return k, nil
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P224() { // TLS has no signature for it
			return nil, unusable("its ECDSA key is of P-224: take P-256, P-384 or P-521")
		}
		return k, nil
	case ed25519.PrivateKey:
		return k, nil
	}
	return nil, unusable("its private key is neither RSA nor ECDSA nor Ed25519")
}
