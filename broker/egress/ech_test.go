package egress_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// hidesBehind returns the list of one configuration for Encrypted Client Hello (RFC 9849 section
// 4). A client with it shows the name public and encrypts the name that it wants.
func hidesBehind(t *testing.T, public string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const x25519, hkdfSHA256, aes128GCM = 0x0020, 0x0001, 0x0001
	b := []byte{7} // config_id
	b = binary.BigEndian.AppendUint16(b, x25519)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(key.PublicKey().Bytes()))), key.PublicKey().Bytes()...)
	b = binary.BigEndian.AppendUint16(b, 4)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, hkdfSHA256), aes128GCM)
	b = append(append(b, 0, byte(len(public))), public...)
	b = append(b, 0, 0) // without extensions
	b = append(binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(b))), b...)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// E25: if a client encrypts the server name, only the public name counts. If that is not the
// tunnel's name, there is no tunnel, and an encrypted name is never used.
func TestHiddenNames(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(x.pem))
	for name, c := range map[string]struct {
		public, hidden string
		answered       bool // under the public name, without the encrypted one
	}{
		"the tunnel's behind another": {"www.example.com", "api.example.com", false},
		"another behind the tunnel's": {"api.example.com", "www.example.com", true},
		"none is the tunnel's":        {"www.example.com", "evil.example.com", false},
	} {
		conn, _ := x.tunnel(t, b.host)
		s := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: c.hidden, MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: hidesBehind(t, c.public)})
		err := s.HandshakeContext(t.Context())
		rejected := errors.As(err, new(*tls.ECHRejectionError))
		if err == nil || rejected != c.answered {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s, err := x.tunnelTo(t, b.host, "api.example.com"); err != nil {
		t.Errorf("their twin, which hides nothing: %v", err)
	} else {
		_ = s.Close()
	}
	until(t, "the refusals are in the audit log", func() bool {
		n := 0
		for _, e := range b.uses(t, x.s.Task.ID) {
			if strings.Contains(string(e.Data), `"misdirected"`) {
				n++
			}
		}
		return n == 2
	})
}
