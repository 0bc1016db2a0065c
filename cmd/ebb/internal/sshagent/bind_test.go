package sshagent_test

import (
	"crypto/rand"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sshagent"
)

// hostCert is a host's key with a certificate of a CA.
func hostCert(t *testing.T, b *bed, ca ssh.Signer, change func(*ssh.Certificate)) ssh.Signer {
	t.Helper()
	key := newSigner(t)
	now := uint64(b.clock().Unix())
	c := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"web-1.example.com"}, ValidAfter: now - 60, ValidBefore: now + 60}
	if change != nil {
		change(c)
	}
	if err := c.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewCertSigner(c, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// If a host's keys are known, a login is signed only for a session with that
// host: the host has signed the session ID, and the login is of that session. A
// host to which the agent is forwarded gets no signature.
//
//ebb:invariant I6 When the host keys are known, the SSH agent signs a login only for a session that a known host has signed
//ebb:invariant I6 The SSH agent signs nothing over a connection that is forwarded or that is bound to a second session
//ebb:invariant I6 When the certificate authority of a host is known, the SSH agent accepts a host certificate only if it names that host
func TestSignsForPinnedHosts(t *testing.T) {
	t.Parallel()
	host, ca, other := newSigner(t), newSigner(t), newSigner(t)
	b := newBed(t, hostKeys(t, known(host.PublicKey())+"@cert-authority "+known(ca.PublicKey())))
	a := b.client()
	k := b.cert(a)
	bound := func(by ssh.Signer) func(*request) {
		return func(r *request) {
			r.Method, r.More = "publickey-hostbound-v00@openssh.com", ssh.Marshal(struct{ Key []byte }{by.PublicKey().Marshal()})
		}
	}
	certified := hostCert(t, b, ca, nil)
	for _, c := range []struct {
		name   string
		bind   [][]byte
		login  func(*request)
		signed bool
	}{
		{"its key", [][]byte{bindTo(t, host, session("s"), false)}, nil, true},
		{"its key, in the login too", [][]byte{bindTo(t, host, session("s"), false)}, bound(host), true},
		{"the same twice", [][]byte{bindTo(t, host, session("s"), false), bindTo(t, host, session("s"), false)}, nil, true},
		{"a certificate of its CA", [][]byte{bindTo(t, certified, session("s"), false)}, bound(certified), true},
		{"nothing bound", nil, nil, false},
		{"nothing bound, the key in the login", nil, bound(host), false},
		{"another host", [][]byte{bindTo(t, other, session("s"), false)}, nil, false},
		{"another session", [][]byte{bindTo(t, host, session("o"), false)}, nil, false},
		{"another host in the login", [][]byte{bindTo(t, host, session("s"), false)}, bound(other), false},
		{"bound, then to another host", [][]byte{bindTo(t, host, session("s"), false), bindTo(t, other, session("s"), false)}, nil, false},
		{"bound to two sessions", [][]byte{bindTo(t, host, session("o"), false), bindTo(t, host, session("s"), false)}, nil, false},
		{"forwarded", [][]byte{bindTo(t, host, session("s"), true)}, nil, false},
		{"forwarded, then bound", [][]byte{bindTo(t, host, session("s"), true), bindTo(t, host, session("s"), false)}, nil, false},
		{"a certificate of another CA", [][]byte{bindTo(t, hostCert(t, b, other, nil), session("s"), false)}, nil, false},
		{"a certificate of another host", [][]byte{bindTo(t, hostCert(t, b, ca, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"web-2.example.com"} }), session("s"), false)}, nil, false},
		{"a certificate of all hosts", [][]byte{bindTo(t, hostCert(t, b, ca, func(c *ssh.Certificate) { c.ValidPrincipals = nil }), session("s"), false)}, nil, false},
		{"a certificate of a user", [][]byte{bindTo(t, hostCert(t, b, ca, func(c *ssh.Certificate) { c.CertType = ssh.UserCert }), session("s"), false)}, nil, false},
		{"a certificate that has expired", [][]byte{bindTo(t, hostCert(t, b, ca, func(c *ssh.Certificate) { c.ValidBefore -= 120 }), session("s"), false)}, nil, false},
		{"a signature of somebody else", [][]byte{forged(t, host, other)}, nil, false},
		{"no binding at all", [][]byte{[]byte("bind")}, nil, false},
	} {
		a := b.client()
		for _, contents := range c.bind {
			_, _ = a.Extension("session-bind@openssh.com", contents) // a refusal shows in the following calls
		}
		r := loginWith(k)
		if c.login != nil {
			c.login(&r)
		}
		if _, err := a.Sign(k, ssh.Marshal(r)); (err == nil) != c.signed {
			t.Errorf("%s: signed = %v, %v", c.name, !c.signed, err)
		}
	}
}

// forged is a session-bind request with the signature of another key.
func forged(t *testing.T, host, by ssh.Signer) []byte {
	t.Helper()
	s, err := by.Sign(rand.Reader, session("s"))
	if err != nil {
		t.Fatal(err)
	}
	return ssh.Marshal(struct {
		Key, Session, Signature []byte
		Forwarding              bool
	}{host.PublicKey().Marshal(), session("s"), ssh.Marshal(s), false})
}

// A connection that is bound to a session signs for no other, whether the
// host's keys are known or not, and lists only certificates for its host.
func TestBoundConnections(t *testing.T) {
	t.Parallel()
	host, other := newSigner(t), newSigner(t)
	free := newBed(t)
	a := free.client()
	k := free.cert(a)
	if _, err := a.Extension("session-bind@openssh.com", bindTo(t, other, session("s"), false)); err != nil {
		t.Fatal(err)
	}
	r := loginWith(k)
	if _, err := a.Sign(k, ssh.Marshal(r)); err != nil {
		t.Errorf("its own session: %v", err)
	}
	r.Session = session("o")
	if _, err := a.Sign(k, ssh.Marshal(r)); err == nil {
		t.Error("signed for another session")
	}
	pinned := newBed(t, hostKeys(t, known(host.PublicKey())))
	for by, want := range map[ssh.Signer]int{host: 1, other: 0} {
		a := pinned.client()
		if _, err := a.Extension("session-bind@openssh.com", bindTo(t, by, session("s"), false)); err != nil {
			t.Fatal(err)
		}
		if list, err := a.List(); err != nil || len(list) != want {
			t.Errorf("%d certificates, want %d: %v", len(list), want, err)
		}
	}
}

// Of two identities each signs for its own host.
func TestTwoHosts(t *testing.T) {
	t.Parallel()
	one, two := newSigner(t), newSigner(t)
	b := &bed{t: t, socket: t.TempDir() + "/s", ca: newSigner(t), now: newBed(t).now, state: newBed(t).state}
	b.serve(b.identity("one", hostKeys(t, known(one.PublicKey()))), b.identity("two", hostKeys(t, known(two.PublicKey()))))
	a := b.client()
	list, err := a.List()
	if err != nil || len(list) != 2 {
		t.Fatalf("%d, %v", len(list), err)
	}
	for i, host := range []ssh.Signer{one, two} {
		a := b.client()
		if _, err := a.Extension("session-bind@openssh.com", bindTo(t, host, session("s"), false)); err != nil {
			t.Fatal(err)
		}
		for j, k := range list {
			if _, err := a.Sign(k, ssh.Marshal(loginWith(&agent.Key{Format: k.Format, Blob: k.Blob}))); (err == nil) != (i == j) {
				t.Errorf("identity %d at host %d: %v", j, i, err)
			}
		}
	}
}

// Lines about another host, with an unknown marker, or invalid ones, pin no
// key.
func TestHostKeysThatAreNone(t *testing.T) {
	t.Parallel()
	line := known(newSigner(t).PublicKey())
	for _, text := range []string{"web-2.example.com" + line[len("web-1.example.com"):], "web-1.example.com,*" + line[len("web-1.example.com"):], "@revoked " + line, "web-1.example.com ssh-ed25519", line + "x"} {
		if _, err := sshagent.ParseHostKeys("web-1.example.com", 22, []byte(text)); err == nil {
			t.Errorf("read: %s", text)
		}
	}
	if _, err := sshagent.ParseHostKeys("web-1.example.com", 2222, []byte("[web-1.example.com]:2222"+line[len("web-1.example.com"):])); err != nil {
		t.Error(err)
	}
	if h, err := sshagent.ParseHostKeys("web-1.example.com", 22, nil); err != nil || h.Pinned() {
		t.Errorf("%v", err)
	}
}
