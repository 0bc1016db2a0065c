package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/ebb-broker/ebb/broker"
)

// maxLeaves is how many leaf certificates are cached for one sandbox.
const maxLeaves = 256

// CA is the certificate authority of one sandbox. Its keys exist only in the memory of this
// process. For a sandbox that Endpoints opens, the key is derived from the secret of ebb
// (derivedCA). Only that sandbox trusts the certificate, and the certificate expires with the task.
type CA struct {
	cert     *x509.Certificate
	key      *ecdsa.PrivateKey
	leafKey  *ecdsa.PrivateKey // of all leaves: the key does not depend on the name
	notAfter time.Time
	now      func() time.Time

	mu     sync.Mutex
	leaves *simplelru.LRU[string, *tls.Certificate]
}

// NewCA makes a CA that is valid until notAfter. The subject of its certificate contains taskID.
// names, if there are any, are the only names that the CA can certify (RFC 5280 section 4.2.1.10).
// now may be nil: time.Now.
func NewCA(taskID string, notAfter time.Time, names []string, now func() time.Time) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("egress: cannot make the CA for %s: %w", taskID, err)
	}
	return newCA(key, taskID, notAfter, names, now)
}

// derivedCA returns the CA of one sandbox. The same secret, task and sandbox give the same key and
// name. So the sandbox still trusts its CA after a restart of ebb: clients verify a certificate by
// the name and key of its issuer (RFC 5280 section 6.1).
func derivedCA(secret []byte, x broker.EgressEndpoint, now func() time.Time) (*CA, error) {
	for n := 0; ; n++ { // a value is not a valid key once in 2^32
		raw, err := hkdf.Key(sha256.New, secret, nil, fmt.Sprintf("%s %s %d", x.TaskID, x.ID, n), 32)
		if err != nil {
			return nil, fmt.Errorf("egress: cannot make the CA for %s: %w", x.TaskID, err)
		}
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw); err == nil {
			return newCA(key, x.TaskID, x.ExpiresAt, nil, now)
		}
	}
}

func newCA(key *ecdsa.PrivateKey, taskID string, notAfter time.Time, names []string, now func() time.Time) (*CA, error) {
	if now == nil {
		now = time.Now
	}
	c := &CA{key: key, notAfter: notAfter, now: now}
	var err1, err2 error
	c.leafKey, err1 = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c.leaves, err2 = simplelru.NewLRU[string, *tls.Certificate](maxLeaves, nil)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("egress: cannot make the CA for %s: %w", taskID, err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "ebb egress of " + taskID, Organization: []string{"ebb"}},
		NotBefore: now().Add(-clockSkew), NotAfter: notAfter, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign, PermittedDNSDomains: names, PermittedDNSDomainsCritical: len(names) > 0,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, c.key.Public(), c.key)
	if err != nil {
		return nil, fmt.Errorf("egress: cannot make the CA for %s: %w", taskID, err)
	}
	if c.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("egress: cannot make the CA for %s: %w", taskID, err)
	}
	return c, nil
}

// clockSkew is the clock difference between ebb and a sandbox that certificates allow for. The
// sandbox runs on this machine or in a microVM.
const clockSkew = 5 * time.Minute

// PEM returns the certificate of the CA, which is not secret.
func (c *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw})
}

// Leaf returns a certificate for exactly one name. Clients reuse a connection for every name of its
// certificate (RFC 9113 section 9.1.1), so a second name would mix hosts in one tunnel.
func (c *CA) Leaf(name string) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, known := c.leaves.Get(name); known {
		return l, nil
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{name}, NotBefore: c.cert.NotBefore, NotAfter: c.notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, c.cert, c.leafKey.Public(), c.key)
	if err != nil {
		return nil, fmt.Errorf("egress: cannot sign a certificate: %w", err)
	}
	l := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: c.leafKey}
	c.leaves.Add(name, l)
	return l, nil
}

// known reports whether a certificate for name is cached. Making one costs a signature.
func (c *CA) known(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaves.Contains(name)
}

func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("egress: cannot draw a serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}
