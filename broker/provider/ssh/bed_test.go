package ssh_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh"
)

// bed is a real sshd that reads CA, revocation list and principals in dir at each login, a
// driver with a CA that sshd trusts, and a user that can log in.
type bed struct {
	*rig
	addr, user, dir string
	host            xssh.PublicKey
	ca              xssh.Signer // to make by hand what a driver never makes
	scripts         string      // the programs of docs/providers/ssh.md, for this bed
}

// newBed is at the sshd of EBB_TEST_SSHD, an address such as
// ssh://user@127.0.0.1:port/dir. The tests of a bed do not run in parallel: it is
// one sshd.
func newBed(t *testing.T, change func(*ssh.Options)) *bed {
	t.Helper()
	u, err := url.Parse(counterpart.Need(t, "EBB_TEST_SSHD"))
	if err != nil || u.Host == "" {
		t.Fatal("EBB_TEST_SSHD is not ssh://user@host:port/dir")
	}
	b := &bed{addr: u.Host, user: u.User.Username(), dir: u.Path}
	line, err := os.ReadFile(filepath.Join(b.dir, "hostkey.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if b.host, _, _, _, err = xssh.ParseAuthorizedKey(line); err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "ca")
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if b.ca, err = xssh.NewSignerFromSigner(private); err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	b.rig = newRig(t, func(o *ssh.Options) {
		o.CA.KeyFile, o.KRL.File = keyFile, filepath.Join(b.dir, "ebb.krl")
		o.Groups = map[string]ssh.Group{
			"web": {Logins: []string{b.user, "other"}}, "mail": {Logins: []string{b.user}},
			"near": {Logins: []string{b.user}, SourceAddress: []string{"127.0.0.0/8"}}, "far": {Logins: []string{b.user}, SourceAddress: []string{"192.0.2.0/24"}},
		}
		o.Commands = map[string]string{"hello": `echo "hello $SSH_ORIGINAL_COMMAND"`}
		if change != nil {
			change(o)
		}
	})
	b.install(t, "web")
	return b
}

// install sets up the host as docs/providers/ssh.md says, as one of group.
func (b *bed) install(t *testing.T, group string) {
	t.Helper()
	cas, err := b.Authorities()
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "ebb-ca.pub", cas)
	b.write(t, "ebb.krl", list(t, b.Driver))
	b.scripts = t.TempDir()
	notes := t.TempDir()
	for name, text := range paste(t) {
		text = strings.NewReplacer("GROUP=web", "GROUP="+group, "/run/ebb-ssh", notes, "/etc/ssh", b.dir, "/usr/local/sbin", b.scripts).Replace(text)
		if err := os.WriteFile(filepath.Join(b.scripts, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		if name == "ebb-principals" {
			b.write(t, name, []byte(text))
		}
	}
}

func (b *bed) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// paste reads the programs that docs/providers/ssh.md offers, by the name in their
// second line.
func paste(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/providers/ssh.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, block := range strings.Split(string(page), "```")[1:] {
		if text, ok := strings.CutPrefix(block, "sh\n#!/bin/sh\n# "); ok {
			out[strings.Fields(text)[0]] = strings.TrimPrefix(block, "sh\n")
		}
	}
	for _, name := range []string{"ebb-principals", "ebb-fetch", "ebb-end-sessions", "ssh-kill"} {
		if out[name] == "" {
			t.Fatalf("docs/providers/ssh.md has no %s", name)
		}
	}
	return out
}

// holder is a sandbox: a key, and the certificate it got.
type holder struct {
	signer xssh.Signer
	cert   *xssh.Certificate
	grant  provider.Grant
}

// get mints for a new key. when shifts the broker's clock.
func (b *bed) get(t *testing.T, scope string, when time.Duration) holder {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return b.getFor(t, private, scope, when)
}

func (b *bed) getFor(t *testing.T, private crypto.Signer, scope string, when time.Duration) holder {
	t.Helper()
	g := b.grant(t, scope)
	g.PublicKey = line(t, private.Public())
	g.IssuedAt, g.ExpiresAt = g.IssuedAt.Add(when), g.ExpiresAt.Add(when)
	return b.hold(t, private, b.mint(t, g), g)
}

func (b *bed) hold(t *testing.T, private crypto.Signer, c *xssh.Certificate, g provider.Grant) holder {
	t.Helper()
	s, err := xssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = xssh.NewCertSigner(c, s); err != nil {
		t.Fatal(err)
	}
	return holder{s, c, g}
}

// login connects as the holder. The error is sshd's refusal.
func (b *bed) login(t *testing.T, h holder) (*xssh.Client, error) {
	t.Helper()
	c, err := net.DialTimeout("tcp", b.addr, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	conn, channels, requests, err := xssh.NewClientConn(c, b.addr, &xssh.ClientConfig{
		User: b.user, Auth: []xssh.AuthMethod{xssh.PublicKeys(h.signer)}, HostKeyCallback: xssh.FixedHostKey(b.host),
	})
	if err != nil {
		_ = c.Close()
		if !strings.Contains(err.Error(), "unable to authenticate") {
			t.Fatalf("no answer of sshd: %v", err)
		}
		return nil, err
	}
	client := xssh.NewClient(conn, channels, requests)
	t.Cleanup(func() { _ = client.Close() })
	return client, c.SetDeadline(time.Time{})
}

// wants checks whether sshd lets the holder in, and if so runs a command.
func (b *bed) wants(t *testing.T, what string, h holder, in bool) {
	t.Helper()
	client, err := b.login(t, h)
	if (err == nil) != in {
		log, _ := os.ReadFile(filepath.Join(b.dir, "log"))
		t.Errorf("%s: sshd lets it in = %v, %v\n%s", what, !in, err, log[max(0, len(log)-1000):])
	}
	if client == nil {
		return
	}
	if out := run(t, client, "echo $((40 + 2))"); in && out != "42\n" && !strings.HasPrefix(out, "hello") {
		t.Errorf("%s: a command says %q", what, out)
	}
	_ = client.Close()
}

func run(t *testing.T, client *xssh.Client, command string) string {
	t.Helper()
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Output(command)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(bytes.ReplaceAll(out, []byte("\r"), nil))
}
