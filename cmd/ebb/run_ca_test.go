package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// sec1 is the DER prefix of a P-256 private key, before its 32 bytes (RFC 5915
// section 3, also inside PKCS #8).
var sec1 = []byte{2, 1, 1, 4, 32}

var (
	inHex    = regexp.MustCompile(`[0-9a-fA-F]{64,}`)
	inBase64 = map[*base64.Encoding]*regexp.Regexp{base64.RawStdEncoding: regexp.MustCompile(`[0-9A-Za-z+/]{43,}`), base64.RawURLEncoding: regexp.MustCompile(`[0-9A-Za-z_-]{43,}`)}
)

// holdsKey reports whether a text contains a private key: in DER, or only the
// number in hex or base64.
func holdsKey(text []byte, of *ecdsa.PublicKey) bool {
	is := func(d []byte) bool {
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d)
		return err == nil && key.PublicKey.Equal(of)
	}
	der := func(b []byte) bool {
		for {
			_, rest, found := bytes.Cut(b, sec1)
			if !found {
				return false
			}
			if len(rest) >= 32 && is(rest[:32]) {
				return true
			}
			b = rest
		}
	}
	if der(text) {
		return true
	}
	for _, m := range inHex.FindAll(text, -1) {
		if b, err := hex.DecodeString(string(m[:len(m)&^1])); err == nil && (is(b[:32]) || der(b)) {
			return true
		}
	}
	lines := bytes.ReplaceAll(text, []byte("\n"), nil) // like PEM
	for enc, form := range inBase64 {
		for _, m := range form.FindAll(lines, -1) {
			if b, err := enc.DecodeString(string(m)); err == nil && (len(b) >= 32 && is(b[:32]) || der(b)) {
				return true
			}
		}
	}
	return false
}

// TestHoldsKey: the search for keys finds one in every encoding.
func TestHoldsKey(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err1 := x509.MarshalECPrivateKey(key)
	pkcs8, err2 := x509.MarshalPKCS8PrivateKey(key)
	d, err3 := key.Bytes()
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	for name, text := range map[string][]byte{
		"SEC 1": ec, "PKCS 8": pkcs8, "hex": []byte(hex.EncodeToString(d)), "DER in hex": []byte(hex.EncodeToString(pkcs8)),
		"a member of a JWK": []byte(`{"d":"` + base64.RawURLEncoding.EncodeToString(d) + `"}`),
		"PEM":               pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: ec}), "PEM of PKCS 8": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	} {
		if !holdsKey(append(append([]byte("before \x00 "), text...), " behind"...), &key.PublicKey) {
			t.Errorf("not found as %s", name)
		}
	}
	if other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil || holdsKey(pkcs8, &other.PublicKey) {
		t.Error("another key passes for it", err)
	}
}

// TestRunKeepsItsCA: (E121) while a sandbox runs that trusts its CA, the CA's
// private key is in no file of ebb, the run, or the sandbox.
func TestRunKeepsItsCA(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	tmp := filepath.Join(b.home, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	b.env = []string{"TMPDIR=" + tmp}
	b.serve()
	b.put()
	ended := make(chan struct{})
	finish := sync.OnceFunc(func() { // the sandbox must end also after a failure, because it keeps the directories
		if err := os.WriteFile(filepath.Join(b.work, "done"), nil, 0o644); err != nil {
			t.Error(err)
		}
		<-ended
	})
	defer finish()
	go func() {
		defer close(ended)
		b.run(`curl -sS --fail -m 120 -o answer -H "Authorization: Bearer $KEY" https://$HOST/v1/x; cat $SSL_CERT_FILE >ca; mv ca ca.pem; while [ ! -e done ]; do sleep 0.1; done`)
	}()
	var text []byte
	for alive := true; text == nil && alive; {
		select {
		case <-ended: // b.run has reported the error
			alive = false
		case <-time.After(20 * time.Millisecond):
		}
		text, _ = os.ReadFile(filepath.Join(b.work, "ca.pem"))
	}
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("the sandbox shows no certificate: %q", text)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, dir := range []string{b.home, b.work} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // removed meanwhile
			}
			if text, err := os.ReadFile(path); err == nil {
				if looked++; holdsKey(text, cert.PublicKey.(*ecdsa.PublicKey)) {
					t.Errorf("the key is in %s", path)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if looked < 5 {
		t.Errorf("there were %d files", looked)
	}
	finish()
}
