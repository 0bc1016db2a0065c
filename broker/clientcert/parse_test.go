package clientcert_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/clientcert/clientcerttest"
)

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// block is one block of PEM.
func block(kind string, der []byte, headers ...string) string {
	b := &pem.Block{Type: kind, Bytes: der}
	if len(headers) > 0 {
		b.Headers = map[string]string{headers[0]: headers[1]}
	}
	return string(pem.EncodeToMemory(b))
}

func TestParse(t *testing.T) {
	a := clientcerttest.New(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256, rsa2048 := clientcerttest.Key(t), rsaKey(t, 2048)
	sec1, err := x509.MarshalECPrivateKey(p256)
	if err != nil {
		t.Fatal(err)
	}
	swap := func(text string, key crypto.Signer, with string) string {
		return strings.Replace(text, clientcerttest.KeyPEM(t, key), with, 1)
	}
	of256 := a.ClientOf(t, "p256", p256)
	for name, text := range map[string]string{
		"P-256": of256, "Ed25519": a.ClientOf(t, "ed", ed), "RSA": a.ClientOf(t, "rsa", rsa2048),
		"SEC 1":        swap(of256, p256, block("EC PRIVATE KEY", sec1)),
		"PKCS #1":      swap(a.ClientOf(t, "rsa", rsa2048), rsa2048, block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsa2048))),
		"key first":    clientcerttest.KeyPEM(t, p256) + swap(of256, p256, ""),
		"no last line": strings.TrimSpace(of256), "of Windows": strings.ReplaceAll(of256, "\n", "\r\n"), "blank lines": "\n\n" + of256 + "\n\n",
		"without EKU": a.Client(t, "x", func(c *x509.Certificate) { c.ExtKeyUsage, c.KeyUsage = nil, 0 }),
		"any EKU":     a.Client(t, "x", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} }),
	} {
		c, err := clientcert.Parse(text, time.Now())
		if err != nil || len(c.Show().Certificate) != 2 || c.Show().Leaf == nil || c.NotAfter().Before(time.Now().Add(11*time.Hour)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

//ebb:invariant I6 A client certificate is accepted only if it is complete, currently valid and permitted for client authentication
//ebb:invariant I6 A client certificate is accepted only with its own private key and with its certificate chain in order
//ebb:invariant I6 A client certificate file is refused if its private key is encrypted or it contains anything besides whole PEM blocks
func TestParseRefuses(t *testing.T) {
	a := clientcerttest.New(t)
	key := clientcerttest.Key(t)
	good, keyText := a.ClientOf(t, "good", key), clientcerttest.KeyPEM(t, key)
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf, rest := pem.Decode([]byte(good))
	with := func(change func(*x509.Certificate)) string { return a.Client(t, "x", change) }
	for name, tt := range map[string]struct{ text, says string }{
		"nothing":             {"", "needs a certificate"},
		"no PEM":              {"sk_live_0123456789", "whole PEM blocks"},
		"no key":              {strings.Replace(good, keyText, "", 1), "needs a certificate"},
		"no certificate":      {keyText, "needs a certificate"},
		"another's key":       {strings.Replace(good, keyText, clientcerttest.KeyPEM(t, clientcerttest.Key(t)), 1), "does not match the first"},
		"two keys":            {good + keyText, "more than one private key"},
		"encrypted, PKCS #8":  {strings.ReplaceAll(good, "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"), "is encrypted"},
		"encrypted, RFC 1421": {strings.Replace(good, keyText, block("EC PRIVATE KEY", []byte("x"), "Proc-Type", "4,ENCRYPTED"), 1), "is encrypted"},
		"headers":             {strings.Replace(good, keyText, block("PRIVATE KEY", []byte("x"), "Comment", "mine"), 1), "headers"},
		"text outside":        {"Bag Attributes\n" + good, "whole PEM blocks"},
		"text between":        {string(pem.EncodeToMemory(leaf)) + "subject=x\n" + string(rest), "whole PEM blocks"},
		"a broken block":      {strings.Replace(good, "-----END CERTIFICATE", "-----END CERTIFICAT", 1), "whole PEM blocks"},
		"half of the file":    {good[:len(good)-40], "whole PEM blocks"},
		"another block":       {good + block("EC PARAMETERS", []byte{1}), "neither CERTIFICATE nor PRIVATE KEY"},
		"a request":           {block("CERTIFICATE REQUEST", leaf.Bytes) + keyText, "neither CERTIFICATE nor PRIVATE KEY"},
		"no DER":              {block("CERTIFICATE", []byte("x")) + keyText, "cannot be read"},
		"no key's DER":        {strings.Replace(good, keyText, block("PRIVATE KEY", []byte("x")), 1), "private key cannot be read"},
		"out of order":        {clientcerttest.PEM(a.Intermediate) + string(pem.EncodeToMemory(leaf)) + keyText, "does not match the first"},
		"somebody's chain":    {string(pem.EncodeToMemory(leaf)) + clientcerttest.PEM(a.Root) + keyText, "not the issuer"},
		"a long chain":        {good + strings.Repeat(clientcerttest.PEM(a.Root), 7), "one too many"},
		"a long file":         {good + strings.Repeat("\n", 32<<10), "more than 32768 bytes"},
		"expired":             {with(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "has expired on"},
		"later":               {with(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }), "not good before"},
		"for servers":         {with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), "clientAuth"},
		"for something else": {with(func(c *x509.Certificate) {
			c.ExtKeyUsage, c.UnknownExtKeyUsage = nil, []asn1.ObjectIdentifier{{1, 3, 9}}
		}), "clientAuth"},
		"to encipher":     {with(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }), "digitalSignature"},
		"a short RSA key": {a.ClientOf(t, "x", rsaKey(t, 1024)), "1024 bits"},
		"P-224":           {a.ClientOf(t, "x", p224), "P-224"},
	} {
		c, err := clientcert.Parse(tt.text, time.Now())
		if c != nil || !errors.Is(err, clientcert.ErrUnusable) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

// TestPrints: no formatting verb prints the key of a certificate.
//
//ebb:invariant I8 No formatting verb prints the private key of a client certificate
func TestPrints(t *testing.T) {
	t.Parallel()
	a := clientcerttest.New(t)
	c, err := clientcert.Parse(a.Client(t, "x"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "certificate", c)
	text, err := c.MarshalText()
	for _, said := range []string{fmt.Sprintf("%v", c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%d", c), c.String(), string(text)} {
		if said != "[redacted]" || err != nil {
			t.Errorf("it says %s, %v", said, err)
		}
	}
	if !strings.Contains(log.String(), `"certificate":"[redacted]"`) {
		t.Error(log.String())
	}
}

// TestSecrets: Secrets returns all parts of the key, and no part of the certificate.
func TestSecrets(t *testing.T) {
	a := clientcerttest.New(t)
	for _, key := range []crypto.Signer{clientcerttest.Key(t), rsaKey(t, 2048)} {
		c, err := clientcert.Parse(a.ClientOf(t, "x", key), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(c.Secrets(), "")
		for _, private := range numbers(key) {
			if !strings.Contains(all, string(private)) {
				t.Errorf("a part of the %T is not looked for", key)
			}
		}
		for _, piece := range c.Secrets() {
			if bytes.Contains(c.Show().Certificate[0], []byte(piece)) {
				t.Errorf("%T: what is in the certificate is looked for", key)
			}
		}
	}
	var none *clientcert.Certificate
	if none.Secrets() != nil || none.Show() != nil || none.ID() != [32]byte{} {
		t.Error("none is something")
	}
}

func numbers(key crypto.Signer) [][]byte {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return [][]byte{k.D.Bytes(), k.Primes[0].Bytes(), k.Primes[1].Bytes()}
	case *ecdsa.PrivateKey:
		raw, _ := k.Bytes()
		return [][]byte{raw}
	}
	return nil
}

func FuzzParse(f *testing.F) {
	a := clientcerttest.New(f)
	f.Add(a.Client(f, "x"))
	f.Add("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----")
	f.Add("-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n\nMA==\n-----END CERTIFICATE-----")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := clientcert.Parse(text, time.Now())
		if (c == nil) != (err != nil) || err != nil && !errors.Is(err, clientcert.ErrUnusable) {
			t.Fatal(err)
		}
		if c != nil && (c.Show() == nil || len(c.Secrets()) == 0) {
			t.Error("a certificate without a key")
		}
	})
}

func BenchmarkParse(b *testing.B) {
	a := clientcerttest.New(b)
	rsa4096 := func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 4096); return k }()
	rsa2048 := func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k }()
	for name, text := range map[string]string{"P-256": a.Client(b, "x"), "RSA-2048": a.ClientOf(b, "x", rsa2048), "RSA-4096": a.ClientOf(b, "x", rsa4096)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := clientcert.Parse(text, time.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
