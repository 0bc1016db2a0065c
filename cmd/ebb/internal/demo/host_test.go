package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh"
	"github.com/ebb-broker/ebb/scopes"
)

// The host of the tour must be as strict as a real one, or the tour proves
// nothing.
func TestHostLetsInOnlyWhoIsCertified(t *testing.T) {
	var o ssh.Options
	if err := json.Unmarshal([]byte(SSHOptions), &o); err != nil {
		t.Fatal(err)
	}
	driver := func() *ssh.Driver {
		d, err := ssh.New(ssh.Config{Name: SSHProvider, Options: o, Dir: t.TempDir() + "/ca", Now: time.Now, Logger: slog.New(slog.DiscardHandler),
			Ended: func(context.Context, time.Time, func(provider.Target) error) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d, stranger := driver(), driver()
	var broken atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/ssh/ca" {
			b, _ := d.Authorities()
			_, _ = w.Write(b)
			return
		}
		l, err := d.KRL(r.Context())
		if broken.Load() {
			err = errors.New("cut off")
		}
		b := l.Marshal()
		if err != nil {
			b = b[:len(b)-1]
		}
		_, _ = w.Write(b)
	}))
	defer web.Close()
	h, err := OpenHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.serve(t.Context(), web.URL, web.Client()); err != nil {
		t.Fatal(err)
	}
	n := byte('0')
	login := func(d *ssh.Driver, change func(*xssh.Certificate, xssh.Signer)) (string, error) {
		plain, line, err := sshKey()
		if err != nil {
			t.Fatal(err)
		}
		n++
		now := time.Now()
		g := provider.Grant{LeaseID: "lse_" + strings.Repeat(string(n), 32), Instance: "0a1b2c3d", Scopes: scopes.MustParseSet("ssh:lighthouse/keeper:login"), IssuedAt: now, ExpiresAt: now.Add(time.Minute)}
		g.PublicKey = line
		c, err := d.Mint(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := sshCert(c.Token.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(cert, plain)
		}
		return sshRun(t.Context(), h.Addr, h.Key(), hostLogin, cert, plain, "light")
	}
	if out, err := login(d, nil); err != nil || out != "lighthouse: light\n" {
		t.Fatalf("%q %v", out, err)
	}
	if _, err := login(stranger, nil); err == nil {
		t.Error("the CA of somebody else is trusted")
	}
	for name, change := range map[string]func(*xssh.Certificate, xssh.Signer){
		"revoked": func(c *xssh.Certificate, _ xssh.Signer) {
			lease := strings.TrimPrefix(strings.Split(c.KeyId, "/")[0], "lease:")
			if err := d.Revoke(t.Context(), provider.Target{LeaseID: lease, Instance: "0a1b2c3d", ExpiresAt: time.Now().Add(time.Minute)}); err != nil {
				t.Fatal(err)
			}
		},
		"signed by itself": func(c *xssh.Certificate, s xssh.Signer) { _ = c.SignCert(rand.Reader, s) },
		"altered": func(c *xssh.Certificate, _ xssh.Signer) {
			c.ValidPrincipals = []string{"root@lighthouse", "keeper@lighthouse"}
		},
	} {
		if _, err := login(d, change); err == nil {
			t.Errorf("%s: let in", name)
		}
	}
	broken.Store(true)
	if _, err := login(d, nil); err == nil {
		t.Error("without a revocation list somebody is let in")
	}
}
