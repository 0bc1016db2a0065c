package ssh_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/ebb-broker/ebb/broker/provider/ssh"
)

func TestSSHDLetsInWhatTheCertificateSays(t *testing.T) {
	b := newBed(t, nil)
	at := func(group string) string { return "ssh:" + group + "/" + b.user + ":login" }
	b.wants(t, "login", b.get(t, at("web"), 0), true)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b.wants(t, "login with P-256", b.getFor(t, ec, at("web"), 0), true)
	b.wants(t, "two principals", b.get(t, at("web")+" ssh:web/other:login", 0), true)
	b.wants(t, "another account of the group", b.get(t, "ssh:web/other:login", 0), false)
	b.wants(t, "another group", b.get(t, at("mail"), 0), false)
	b.wants(t, "ebb's clock 50 s ahead", b.get(t, at("web"), 50*time.Second), true)
	b.wants(t, "not valid yet", b.get(t, at("web"), 2*time.Minute), false)
	b.wants(t, "expired a second ago", b.get(t, at("web"), -5*time.Minute-time.Second), false)
	b.install(t, "near")
	b.wants(t, "from the right address", b.get(t, at("near"), 0), true)
	b.install(t, "far")
	b.wants(t, "from another address", b.get(t, at("far"), 0), false)
}

// TestSSHDRefusesWhatIsNeverMade: sshd refuses certificates that the driver never makes, made
// here directly with the same CA.
func TestSSHDRefusesWhatIsNeverMade(t *testing.T) {
	b := newBed(t, nil)
	for name, spoil := range map[string]func(*xssh.Certificate){
		"":                                   func(*xssh.Certificate) {},
		"no principals":                      func(c *xssh.Certificate) { c.ValidPrincipals = nil },
		"unknown critical option":            func(c *xssh.Certificate) { c.CriticalOptions = map[string]string{"ebb": "1"} },
		"host certificate":                   func(c *xssh.Certificate) { c.CertType = xssh.HostCert },
		"source-address beyond its mask":     func(c *xssh.Certificate) { c.CriticalOptions = map[string]string{"source-address": "127.0.0.1/8"} },
		"principal with another group's end": func(c *xssh.Certificate) { c.ValidPrincipals = []string{b.user + "@web@mail"} },
	} {
		pub, private, _ := ed25519.GenerateKey(rand.Reader)
		g := b.grant(t, "ssh:web/"+b.user+":login")
		g.PublicKey = line(t, pub)
		c := b.mint(t, g)
		spoil(c)
		if err := c.SignCert(rand.Reader, b.ca); err != nil {
			t.Fatal(err)
		}
		b.wants(t, name, b.hold(t, private, c, g), name == "")
	}
	newBed(t, nil) // the host trusts another CA now
	b.wants(t, "a CA that is not trusted", b.get(t, "ssh:web/"+b.user+":login", 0), false)
}

func TestSSHDPermitsNothingThatWasNotAsked(t *testing.T) {
	b := newBed(t, nil)
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	login := "ssh:web/" + b.user + ":"
	for scope, want := range map[string][3]bool{
		login + "login":                               {},
		login + "login " + login + "pty":              {true, false, false},
		login + "login " + login + "port-forwarding":  {false, true, false},
		login + "login " + login + "agent-forwarding": {false, false, true},
		login + "run.hello " + login + "pty":          {true, false, false},
		login + "run.hello":                           {},
	} {
		client, err := b.login(t, b.get(t, scope, 0))
		if err != nil {
			t.Fatal(err)
		}
		s, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		pty := s.RequestPty("xterm", 24, 80, nil) == nil
		forwarded := agent.RequestAgentForwarding(s) == nil
		_ = s.Close()
		c, err := client.Dial("tcp", target.Listener.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		if got := [3]bool{pty, err == nil, forwarded}; got != want {
			t.Errorf("%s: pty, ports, agent = %v, want %v", scope, got, want)
		}
		out := run(t, client, "id; touch /tmp/x")
		if forced := strings.Contains(scope, "run.hello"); forced != (out == "hello id; touch /tmp/x\n") {
			t.Errorf("%s: a command says %q", scope, out)
		}
		_ = client.Close()
	}
}

// TestSSHDAndTheList covers the last three rows of the reference's table: sshd applies the
// revocation list at the next connection, refuses every login without the list, and does not
// close open connections.
func TestSSHDAndTheList(t *testing.T) {
	b := newBed(t, nil)
	scope := "ssh:web/" + b.user + ":login"
	dying, other := b.get(t, scope, 0), b.get(t, scope, 0)
	b.wants(t, "before", dying, true)
	open, err := b.login(t, dying)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Revoke(t.Context(), target(dying.grant)); err != nil {
		t.Fatal(err)
	}
	b.wants(t, "revoked", dying, false)
	b.wants(t, "another certificate", other, true)
	if out := run(t, open, "echo still here"); out != "still here\n" {
		t.Errorf("an open connection says %q: sshd has changed, and the documentation is wrong", out)
	}
	path := filepath.Join(b.dir, "ebb.krl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "ebb.krl", whole[:len(whole)-1])
	b.wants(t, "a list that is cut off", other, false)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b.wants(t, "no list", other, false)
	// The driver that looks after the file puts it back, with what is revoked.
	b.record.set(nil, target(dying.grant))
	b.clock.forward(2 * time.Second)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- b.Run(ctx) }()
	until(t, "the list is back", func() bool { _, err := os.Stat(path); return err == nil })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.wants(t, "revoked, with the list put back", dying, false)
	b.wants(t, "another certificate, with the list put back", other, true)
	// A restart reads the record and publishes the same.
	again := b.again(t)
	if err := again.Revoke(t.Context(), target(b.grant(t, scope))); err != nil {
		t.Fatal(err)
	}
	b.wants(t, "revoked, after a restart", dying, false)
	b.wants(t, "another certificate, after a restart", other, true)
}

// TestSSHDKillCommandEndsOpenSessions runs the programs of the documentation: a host that
// fetches the list, and a kill command that ends open connections, also a forwarding without a
// session.
func TestSSHDKillCommandEndsOpenSessions(t *testing.T) {
	var b *bed
	hook := filepath.Join(t.TempDir(), "kill")
	b = newBed(t, func(o *ssh.Options) {
		o.KRL.File = "" // the host fetches
		o.Kill = &ssh.Kill{Command: []string{hook}}
	})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/ssh/krl" {
			_, _ = w.Write(list(t, b.Driver))
			return
		}
		cas, err := b.Authorities()
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(cas)
	}))
	defer web.Close()
	fetch := filepath.Join(b.scripts, "ebb-fetch")
	text, err := os.ReadFile(fetch)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fetch, []byte(strings.Replace(string(text), "https://ebb.example.com", web.URL, 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nexec "+b.scripts+"/ebb-end-sessions \"$EBB_SERIAL\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(fetch).CombinedOutput(); err != nil {
		t.Fatalf("ebb-fetch: %v\n%s", err, out)
	}
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	login := "ssh:web/" + b.user + ":"
	dying, other := b.get(t, login+"login "+login+"port-forwarding", 0), b.get(t, login+"login", 0)
	ended := make(chan error, 3)
	for range 2 {
		client, err := b.login(t, dying)
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- client.Wait() }()
		if _, err := client.Dial("tcp", echo.Addr().String()); err != nil {
			t.Fatal(err)
		}
	}
	busy, err := b.login(t, dying)
	if err != nil {
		t.Fatal(err)
	}
	s, err := busy.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- s.Run("sleep 600") }()
	kept, err := b.login(t, other)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Revoke(t.Context(), target(dying.grant)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			t.Fatal("a connection of a revoked certificate is still open")
		}
	}
	b.wants(t, "revoked", dying, false)
	if out := run(t, kept, "echo still here"); out != "still here\n" {
		t.Errorf("a connection of another certificate says %q", out)
	}
	if err := b.Revoke(t.Context(), target(dying.grant)); err != nil {
		t.Errorf("a second time: %v", err)
	}
	web.Close()
	if err := b.Revoke(t.Context(), target(other.grant)); err == nil {
		t.Error("the host could not fetch the list, and the command succeeds")
	}
	for _, bad := range []string{"", "1;id", "../x", "*", strconv.Itoa(-1)} {
		if exec.Command(filepath.Join(b.scripts, "ebb-end-sessions"), bad).Run() == nil {
			t.Errorf("ebb-end-sessions %q succeeds", bad)
		}
	}
}
