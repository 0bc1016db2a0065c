package ssh_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh"
)

// security is the line of a security key (PROTOCOL.u2f).
func security(t testing.TB, kind, application string) string {
	t.Helper()
	pub, _, _ := ed25519.GenerateKey(rand.Reader)
	var blob []byte
	switch kind {
	case xssh.KeyAlgoSKED25519:
		blob = xssh.Marshal(struct {
			Kind        string
			Key         []byte
			Application string
		}{kind, pub, application})
	case xssh.KeyAlgoSKECDSA256:
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		point, err := k.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		blob = xssh.Marshal(struct {
			Kind, Curve string
			Key         []byte
			Application string
		}{kind, "nistp256", point, application})
	}
	return kind + " " + base64.StdEncoding.EncodeToString(blob)
}

// weakLine is the line of an Ed25519 key whose encoding begins with these bytes; the rest are zero.
func weakLine(kind string, encoding ...byte) string {
	key := append(encoding, make([]byte, ed25519.PublicKeySize-len(encoding))...)
	if kind == xssh.KeyAlgoED25519 {
		return kind + " " + base64.StdEncoding.EncodeToString(xssh.Marshal(struct {
			Kind string
			Key  []byte
		}{kind, key}))
	}
	return kind + " " + base64.StdEncoding.EncodeToString(xssh.Marshal(struct {
		Kind        string
		Key         []byte
		Application string
	}{kind, key, "ssh:"}))
}

func ecLine(t testing.TB, c elliptic.Curve) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return line(t, k.Public())
}

//ebb:invariant I6 An Ed25519 key of small order or non-canonical encoding is refused as an SSH key to certify
func TestPublicKeys(t *testing.T) {
	r := newRig(t, nil)
	good := newKey(t)
	for name, text := range map[string]string{
		"Ed25519": good, "comment": good + " bo@laptop", "comment of words": good + " my laptop, é", "newline": good + "\n", "CRLF": good + "\r\n",
		"P-256": ecLine(t, elliptic.P256()), "sk Ed25519": security(t, xssh.KeyAlgoSKED25519, "ssh:"), "sk P-256": security(t, xssh.KeyAlgoSKECDSA256, "ssh:ebb"),
	} {
		g := r.grant(t, "ssh:web/bo:login")
		g.PublicKey = text
		c, err := r.Mint(t.Context(), g)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := strings.Join(strings.Fields(text)[:2], " ")
		if got := strings.TrimSpace(string(xssh.MarshalAuthorizedKey(certificate(t, c).Key))); got != want {
			t.Errorf("%s: certified %q", name, got)
		}
	}
	rk, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := r.Mint(t.Context(), r.grant(t, "ssh:web/bo:login"))
	if err != nil {
		t.Fatal(err)
	}
	kind, text, _ := strings.Cut(good, " ")
	blob, _ := base64.StdEncoding.DecodeString(text)
	encode := base64.StdEncoding.EncodeToString
	for name, text := range map[string]string{
		"nothing": "", "blank": " ", "RSA": line(t, rk.Public()), "P-384": ecLine(t, elliptic.P384()), "P-521": ecLine(t, elliptic.P521()),
		"a certificate": cert.Token.Reveal(), "options": "no-pty " + good, "cert-authority": "cert-authority " + good, "principals": `principals="root" ` + good,
		"two lines": good + "\n" + newKey(t), "two lines by CR": good + "\r" + newKey(t), "two newlines": good + "\n\n", "leading space": " " + good, "tab": strings.Replace(good, " ", "\t", 1),
		"two spaces": strings.Replace(good, " ", "  ", 1), "control character in the comment": good + " bo\x1b[2J", "NUL": good + "\x00", "bidi in the comment": good + " bo\u202e",
		"line separator": good + " a\u2028b", "bad UTF-8": good + " \xff", "type alone": kind, "type of another": xssh.KeyAlgoECDSA256 + " " + text, "bare base64": text,
		"base64url": kind + " " + strings.NewReplacer("A", "-").Replace(text), "no padding bits": kind + " " + text[:len(text)-1], "trailing bytes": kind + " " + encode(append(bytes.Clone(blob), 0)),
		"cut": kind + " " + encode(blob[:len(blob)-1]), "inner type differs": kind + " " + encode(bytes.Replace(blob, []byte("ssh-ed25519"), []byte("ssh-ed25518"), 1)),
		"point off the curve": xssh.KeyAlgoECDSA256 + " " + encode(xssh.Marshal(struct {
			Kind, Curve string
			Point       []byte
		}{xssh.KeyAlgoECDSA256, "nistp256", append([]byte{4}, make([]byte, 64)...)})),
		"application of another protocol": security(t, xssh.KeyAlgoSKED25519, "webauthn"), "application with control characters": security(t, xssh.KeyAlgoSKECDSA256, "ssh:\n"),
		"application that never ends": security(t, xssh.KeyAlgoSKED25519, "ssh:"+strings.Repeat("a", 300)), "long": good + " " + strings.Repeat("a", 5000),
		"private key": "-----BEGIN OPENSSH PRIVATE KEY-----", "Ed25519 of small order": weakLine(xssh.KeyAlgoED25519, 1),
		"sk Ed25519 of small order": weakLine(xssh.KeyAlgoSKED25519, 1), "Ed25519 with y of p and more": weakLine(xssh.KeyAlgoED25519, bytes.Repeat([]byte{0xff}, 32)...),
	} {
		g := r.grant(t, "ssh:web/bo:login")
		g.PublicKey = text
		_, err := r.Mint(t.Context(), g)
		var refused *provider.RefusedError
		if !errors.As(err, &refused) || !strings.HasPrefix(refused.Public, "public_key") {
			t.Errorf("%s: Mint = %v, want a refusal", name, err)
		} else if len(text) > 20 && strings.Contains(refused.Public, text[len(text)-20:]) {
			t.Errorf("%s: the refusal repeats the line", name)
		}
	}
}

// FuzzPublicKey: the certificate contains exactly the key in the first two fields of the line.
func FuzzPublicKey(f *testing.F) {
	good := newKey(f)
	for _, seed := range []string{good, good + " c", "no-pty " + good, ecLine(f, elliptic.P256()), security(f, xssh.KeyAlgoSKED25519, "ssh:"), "ssh-rsa AAAA", ""} {
		f.Add(seed)
	}
	r := newRig(f, nil)
	f.Fuzz(func(t *testing.T, text string) {
		g := r.grant(t, "ssh:web/bo:login")
		g.PublicKey = text
		c, err := r.Mint(t.Context(), g)
		if err != nil {
			if !errors.Is(err, provider.ErrRefused) {
				t.Fatal(err)
			}
			return
		}
		fields := strings.SplitN(strings.TrimRight(text, "\r\n"), " ", 3)
		cert := certificate(t, c)
		if got := strings.TrimSpace(string(xssh.MarshalAuthorizedKey(cert.Key))); got != fields[0]+" "+fields[1] {
			t.Fatalf("%q was certified for %q", got, text)
		}
		if len(cert.ValidPrincipals) != 1 || len(cert.Extensions) != 0 || cert.Serial != ssh.SerialOf(g.LeaseID) {
			t.Fatalf("%q changed the certificate: %+v", text, cert)
		}
	})
}
