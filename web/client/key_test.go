package client_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
)

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func TestSaveLoadKey(t *testing.T) {
	t.Parallel()
	for _, alg := range []jose.Alg{jose.ES256, jose.EdDSA} {
		path := filepath.Join(t.TempDir(), "client.key")
		k, err := client.NewKey(alg)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.SaveKey(path, k); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		back, err := client.LoadKey(path)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := jose.Thumbprint(k.Public())
		b, _ := jose.Thumbprint(back.Public())
		if a != b {
			t.Errorf("%s: another key came back", alg)
		}
		if err := client.SaveKey(path, k); !errors.Is(err, fs.ErrExist) {
			t.Errorf("overwriting: %v", err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := client.LoadKey(path); !errors.Is(err, secret.ErrOpen) {
			t.Errorf("readable file: %v", err)
		}
	}
	if _, err := client.NewKey(jose.RS256); err == nil {
		t.Error("made an RSA client key")
	}
	if err := client.SaveKey(filepath.Join(t.TempDir(), "k"), remote{}); err == nil {
		t.Error("saved a key that is elsewhere")
	}
}

type remote struct{ *ecdsa.PrivateKey }

func jwks() (ed, ec string) {
	k := ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", 32)))
	p, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	d, _ := p.Bytes()
	point, _ := p.PublicKey.Bytes()
	return fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","d":%q,"x":%q,"kid":"a"}`, b64(k.Seed()), b64(k[32:])),
		fmt.Sprintf(`{"kty":"EC","crv":"P-256","d":%q,"x":%q,"y":%q}`, b64(d), b64(point[1:33]), b64(point[33:]))
}

func pemOf(t testing.TB, k any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	ed, ec := jwks()
	p256, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	rsa2048, _ := rsa.GenerateKey(rand.Reader, 2048)
	good := pemOf(t, p256)
	for name, tc := range map[string]struct {
		text string
		ok   bool
	}{
		"PEM":              {good, true},
		"PEM below a head": {"client_id: me\n" + good, true},
		"JWK Ed25519":      {ed, true},
		"JWK P-256":        {"\n " + ec, true},
		"empty":            {"", false},
		"public PEM":       {strings.ReplaceAll(good, "PRIVATE", "PUBLIC"), false},
		"two keys":         {good + good, false},
		"cut":              {good[:60], false},
		"P-384":            {pemOf(t, p384), false},
		"RSA":              {pemOf(t, rsa2048), false},
		"public JWK":       {strings.Replace(ed, `"d"`, `"e"`, 1), false},
		"halves differ":    {strings.Replace(ed, `"x":"`, `"x":"AA`, 1), false},
		"wrong half":       {strings.Replace(ed, b64([]byte(strings.Repeat("s", 32))), b64([]byte(strings.Repeat("t", 32))), 1), false},
		"wrong curve":      {strings.Replace(ec, "P-256", "P-384", 1), false},
		"zero scalar":      {strings.Replace(ec, `"d":"`, `"d":"`+strings.Repeat("A", 43)+`","q":"`, 1), false},
		"symmetric":        {`{"kty":"oct","k":"AAAA"}`, false},
		"not JSON":         {`{"kty"`, false},
		"JWK with a tail":  {ed + ed, false},
	} {
		k, err := client.ParseKey([]byte(tc.text))
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if _, err := jose.Sign(k, jose.SignHeader{Type: "x"}, struct{}{}); err != nil {
				t.Errorf("%s: does not sign: %v", name, err)
			}
		}
	}
}

func FuzzParseKey(f *testing.F) {
	ed, ec := jwks()
	f.Add([]byte(ed))
	f.Add([]byte(ec))
	p256, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.Add([]byte(pemOf(f, p256)))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := client.ParseKey(text)
		if err != nil {
			return
		}
		if _, err := jose.AlgOf(k.Public()); err != nil {
			t.Fatalf("accepted a key that cannot sign: %v", err)
		}
	})
}
