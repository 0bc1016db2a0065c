package clientcerttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Authority signs client certificates by way of an intermediate one.
type Authority struct {
	Root         *x509.Certificate
	Intermediate *x509.Certificate
	key          crypto.Signer // of Intermediate
}

// Key makes a private key of P-256.
func Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// New makes an Authority.
func New(t testing.TB) *Authority {
	t.Helper()
	rootKey, key := Key(t), Key(t)
	ca := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
	}
	root := sign(t, ca("clients' root"), ca("clients' root"), rootKey.Public(), rootKey)
	return &Authority{Root: root, Intermediate: sign(t, ca("clients' issuer"), root, key.Public(), rootKey), key: key}
}

// Pool holds the root alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Root)
	return pool
}

// Client is a chain and its key for a name, as PEM; change alters what is signed.
func (a *Authority) Client(t testing.TB, name string, change ...func(*x509.Certificate)) string {
	t.Helper()
	return a.ClientOf(t, name, Key(t), change...)
}

// ClientOf is Client with a key that is there.
func (a *Authority) ClientOf(t testing.TB, name string, key crypto.Signer, change ...func(*x509.Certificate)) string {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(12 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, do := range change {
		do(c)
	}
	return PEM(sign(t, c, a.Intermediate, key.Public(), a.key)) + PEM(a.Intermediate) + KeyPEM(t, key)
}

// PEM is one certificate.
func PEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// KeyPEM is a key in PKCS #8.
func KeyPEM(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func sign(t testing.TB, c, by *x509.Certificate, of crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, by, of, key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
