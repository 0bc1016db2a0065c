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

	"ebb/broker"
)

// maxLeaves is how many names one task's certificates are kept for.
const maxLeaves = 256

// CA is the certificate authority of one sandbox. Its keys are in this process's memory, and are kept
// nowhere: the key of a sandbox that Boxes opens is derived from ebb's secret (derivedCA). Its
// certificate is trusted in that sandbox alone, and both are worthless after the task.
type CA struct {
	cert     *x509.Certificate
	key      *ecdsa.PrivateKey
	leafKey  *ecdsa.PrivateKey // of every leaf: a key says nothing of a name
	notAfter time.Time
	now      func() time.Time

	mu     sync.Mutex
	leaves *simplelru.LRU[string, *tls.Certificate]
}

// NewCA makes the CA of a task until its deadline; taskID is what people see who look
// at a certificate. names, if there are any, are all that it can certify (RFC 5280
// section 4.2.1.10). now may be nil.
func NewCA(taskID string, notAfter time.Time, names []string, now func() time.Time) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("egress: a CA for %s: %w", taskID, err)
	}
	return newCA(key, taskID, notAfter, names, now)
}

// derivedCA is the CA of one sandbox. The same secret, task and sandbox give the same key and the same
// name, so that a sandbox goes on trusting its CA after a restart of ebb: what verifies a certificate is
// the name and the key of its issuer (RFC 5280 section 6.1).
func derivedCA(secret []byte, x broker.Box, now func() time.Time) (*CA, error) {
	for n := 0; ; n++ { // a value that is no key is drawn once in 2^32
		raw, err := hkdf.Key(sha256.New, secret, nil, fmt.Sprintf("%s %s %d", x.TaskID, x.ID, n), 32)
		if err != nil {
			return nil, fmt.Errorf("egress: a CA for %s: %w", x.TaskID, err)
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
		return nil, fmt.Errorf("egress: a CA for %s: %w", taskID, err)
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
		return nil, fmt.Errorf("egress: a CA for %s: %w", taskID, err)
	}
	if c.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("egress: a CA for %s: %w", taskID, err)
	}
	return c, nil
}

// clockSkew is how far the clock of a box, which is this machine's or a microVM's, is off.
const clockSkew = 5 * time.Minute

// PEM is the certificate of the CA, which is no secret.
func (c *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw})
}

// Leaf is a certificate for exactly one name: a client that reuses connections by what
// a certificate covers (RFC 9113 section 9.1.1) does so for no other.
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
		return nil, fmt.Errorf("egress: a certificate: %w", err)
	}
	l := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: c.leafKey}
	c.leaves.Add(name, l)
	return l, nil
}

// config is that of all tunnels of a box. There are no tickets: a session that is resumed shows no
// certificate, and one tunnel's would be good in another to another host.
func (c *CA) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			t, is := hello.Conn.(*tunnel)
			// No name is an older client; another name is somebody who means another host.
			if !is || hello.ServerName != "" && hello.ServerName != t.host.Name {
				return nil, deny(Misdirected, nil)
			}
			return c.Leaf(t.host.Name)
		},
	}
}

// known reports whether there is a certificate for a name: one that is not costs a signature.
func (c *CA) known(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaves.Contains(name)
}

func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("egress: a serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}
