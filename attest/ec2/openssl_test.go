package ec2_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// openssl returns a function that runs openssl in a directory with the maker's key and
// certificate and one document.
func openssl(t *testing.T, m *maker, document string) func(args ...string) string {
	t.Helper()
	program, dir := counterpart.Program(t, "openssl"), t.TempDir()
	key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(m.key)})
	for name, b := range map[string][]byte{"key.pem": key, "aws.pem": pemOf(m.cert.Raw), "document": []byte(document)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("openssl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}

// TestOpenSSLSigns uses OpenSSL as the signer, in DER and, with -stream, in BER like
// AWS.
func TestOpenSSLSigns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := openssl(t, f.maker, f.maker.launch(f.clock.Now(), instance()).document())
	sign := strings.Fields("cms -sign -in document -binary -nodetach -nocerts -nosmimecap -signer aws.pem -inkey key.pem -outform DER -md")
	for name, tt := range map[string]struct {
		args []string
		want attest.Reason // "" for accepted
	}{
		"DER":                 {[]string{"sha256"}, ""},
		"BER":                 {[]string{"sha256", "-stream"}, ""},
		"its certificate":     {[]string{"sha256", "-certfile", "aws.pem"}, attest.ReasonMalformed},
		"SHA-1":               {[]string{"sha1"}, attest.ReasonAlgorithm},
		"SHA-512":             {[]string{"sha512"}, attest.ReasonAlgorithm},
		"PSS":                 {[]string{"sha256", "-keyopt", "rsa_padding_mode:pss"}, attest.ReasonAlgorithm},
		"by key id":           {[]string{"sha256", "-keyid"}, attest.ReasonMalformed},
		"no attributes":       {[]string{"sha256", "-noattr"}, attest.ReasonMalformed},
		"ESS attributes":      {[]string{"sha256", "-cades"}, attest.ReasonMalformed},
		"another form inside": {[]string{"sha256", "-econtent_type", "1.2.840.113549.1.9.16.1.4"}, attest.ReasonMalformed},
	} {
		raw := run(append(sign, tt.args...)...)
		if ber := strings.HasPrefix(raw, "\x30\x80"); ber != (name == "BER") {
			t.Errorf("%s: indefinite: %v", name, ber)
		}
		id, err := f.Attest(t.Context(), f.shown(t, []byte(raw), attesttest.NewKey(t)))
		if attesttest.Reason(err) != tt.want || (tt.want == "") != (err == nil) {
			t.Errorf("%s: got %+v, %v, want %q", name, id, err, tt.want)
		}
	}
	detached := run(strings.Fields("cms -sign -in document -binary -nocerts -nosmimecap -signer aws.pem -inkey key.pem -outform DER -md sha256")...)
	if _, err := f.Attest(t.Context(), f.shown(t, []byte(detached), attesttest.NewKey(t))); attesttest.Reason(err) != attest.ReasonMalformed {
		t.Errorf("without its content: %v", err)
	}
}

// TestOpenSSLVerifies verifies with the openssl command on AWS's page. It accepts the
// maker's signatures, and refuses documents that Attest rejects for their signature.
func TestOpenSSLVerifies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.maker.launch(f.clock.Now(), instance())
	document := p.document()
	run := openssl(t, f.maker, document)
	raw := filepath.Join(t.TempDir(), "rsa2048")
	if err := os.WriteFile(raw, p.sealed(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run("smime", "-verify", "-in", raw, "-inform", "DER", "-certfile", "aws.pem", "-noverify"); got != document {
		t.Errorf("got %q", got)
	}
}
