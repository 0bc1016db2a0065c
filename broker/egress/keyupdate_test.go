package egress_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/ebb-broker/ebb/attest/attesttest"
)

// ratchet writes TLS 1.3 records (RFC 8446 section 5.2) to a connection after the handshake, as one
// side that has sent no data yet.
type ratchet struct {
	raw    net.Conn
	secret []byte // traffic secret of this side
	suite  uint16
	seq    uint64
}

// newRatchet finds the secret in the key log of a connection.
func newRatchet(c *tls.Conn, keys, of string) (*ratchet, error) {
	_, line, is := strings.Cut(keys, of+"_TRAFFIC_SECRET_0 ")
	line, _, _ = strings.Cut(line, "\n")
	_, text, _ := strings.Cut(line, " ")
	secret, err := hex.DecodeString(text)
	if !is || err != nil || len(secret) != sha256.Size {
		return nil, fmt.Errorf("%d bytes of a secret: %w", len(secret), err)
	}
	return &ratchet{raw: c.NetConn(), secret: secret, suite: c.ConnectionState().CipherSuite}, nil
}

func (r *ratchet) expand(label string, n int) []byte {
	label = "tls13 " + label
	out, err := hkdf.Expand(sha256.New, r.secret, string([]byte{byte(n >> 8), byte(n), byte(len(label))})+label+"\x00", n)
	if err != nil {
		panic(err) // only for a wrong length
	}
	return out
}

// aead returns the AEAD of the cipher suite, which two Go endpoints choose by whether the machine
// has AES instructions.
func (r *ratchet) aead() (cipher.AEAD, error) {
	switch r.suite {
	case tls.TLS_AES_128_GCM_SHA256:
		block, err := aes.NewCipher(r.expand("key", 16))
		if err != nil {
			return nil, err
		}
		return cipher.NewGCM(block)
	case tls.TLS_CHACHA20_POLY1305_SHA256:
		return chacha20poly1305.New(r.expand("key", chacha20poly1305.KeySize))
	}
	return nil, errors.New("two ends in Go do not choose " + tls.CipherSuiteName(r.suite))
}

// update sends n KeyUpdate messages in one record and requests updates of the peer (section 4.6.3).
func (r *ratchet) update(n int) error {
	err := r.write(22, bytes.Repeat([]byte{24, 0, 0, 1, 1}, n))
	r.secret, r.seq = r.expand("traffic upd", sha256.Size), 0
	return err
}

// write sends one record of a type (RFC 8446 section 5.1).
func (r *ratchet) write(kind byte, data []byte) error {
	aead, err := r.aead()
	if err != nil {
		return err
	}
	nonce := r.expand("iv", 12)
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^r.seq)
	r.seq++
	inner := append(bytes.Clone(data), kind)
	head := []byte{23, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(head[3:], uint16(len(inner)+aead.Overhead()))
	_, err = r.raw.Write(aead.Seal(head, nonce, inner, head))
	return err
}

// flood sends KeyUpdates, one in each record, until the peer stops reading.
func (r *ratchet) flood() {
	_ = r.raw.SetWriteDeadline(time.Now().Add(patience))
	for range floodFrames {
		if r.update(1) != nil {
			return
		}
	}
}

// updates opens a tunnel in which a test writes TLS records itself.
func (x *sandbox) updates(t *testing.T) *ratchet {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(x.pem))
	c, _ := x.tunnel(t, x.b.host)
	_ = c.SetDeadline(time.Time{})
	var keys attesttest.Log
	s := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "api.example.com", MinVersion: tls.VersionTLS13, KeyLogWriter: &keys})
	if err := s.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := newRatchet(s, keys.String(), "CLIENT")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// E54: endless KeyUpdates, or many in one record, end a tunnel and affect no other.
func TestKeyUpdatesOfASandbox(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x, other := b.sandbox(t), b.sandbox(t)
	r := x.updates(t)
	if err := r.update(100); err != nil {
		t.Fatal(err)
	}
	ends(t, r.raw, r.raw)
	r = x.updates(t)
	r.flood()
	ends(t, r.raw, r.raw)
	for who, x := range map[string]*sandbox{"another box": other, "its own next tunnel": x} {
		if res, body := send(t, x.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read")); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", who, res.StatusCode, body)
		}
	}
}

// E54: an upstream that sends only KeyUpdates is disconnected, too.
func TestKeyUpdatesOfAnUpstream(t *testing.T) {
	t.Parallel()
	b := newRecordsBed(t, func(r *ratchet) {
		r.flood()
		_, _ = io.Copy(io.Discard, r.raw) // until ebb closes it
	})
	x := b.sandbox(t)
	res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read"))
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, "upstream_unreachable") {
		t.Errorf("%s %q", res.Status, body)
	}
}
