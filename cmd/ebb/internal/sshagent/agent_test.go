package sshagent_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/wire"
)

// A client sees one certificate and no private key, and gets valid signatures
// of logins.
func TestSignsLogins(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	a := b.client()
	k := b.cert(a)
	for _, user := range []string{"deploy", "ops"} {
		r := loginWith(k)
		r.User = user
		s, err := a.Sign(k, ssh.Marshal(r))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Verify(ssh.Marshal(r), s); err != nil {
			t.Error(err)
		}
	}
}

// Only logins with this certificate for its users are signed: not a file, not a
// login of another user, not arbitrary bytes. Each case differs by one change
// from data that is signed.
//
//ebb:invariant I6 The SSH agent signs only login requests, and only if their bytes have exactly one interpretation
//ebb:invariant I6 The SSH agent signs a login only with its own certificate and only for a user that the certificate names
func TestSignsNothingElse(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	a := b.client()
	k := b.cert(a)
	plain := &agent.Key{Format: ssh.KeyAlgoED25519}
	if parsed, err := ssh.ParsePublicKey(k.Blob); err != nil {
		t.Fatal(err)
	} else {
		plain.Blob = parsed.(*ssh.Certificate).Key.Marshal()
	}
	strange := newBed(t)
	theirs := strange.cert(strange.client())
	of := func(change func(*request)) []byte {
		r := loginWith(k)
		change(&r)
		return ssh.Marshal(r)
	}
	good := of(func(*request) {})
	sshsig := append([]byte("SSHSIG"), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Digest                    []byte
	}{"git", "", "sha512", session("d")})...)
	for name, data := range map[string][]byte{
		"nothing": {}, "SSHSIG": sshsig, "bytes": session("x"), "another user": of(func(r *request) { r.User = "root" }), "no user": of(func(r *request) { r.User = "" }),
		"the principal as a user": of(func(r *request) { r.User = "deploy@web" }), "another service": of(func(r *request) { r.Service = "ssh-userauth" }),
		"another method": of(func(r *request) { r.Method = "hostbased" }), "a question whether": of(func(r *request) { r.Signed = false }),
		"another message": of(func(r *request) { r.Message = 51 }), "another certificate": of(func(r *request) { r.Key = theirs.Blob }), "the plain key": of(func(r *request) { r.Algorithm, r.Key = plain.Format, plain.Blob }),
		"another algorithm": of(func(r *request) { r.Algorithm = ssh.KeyAlgoED25519 }), "a short session": of(func(r *request) { r.Session = []byte("short") }),
		"a long session": of(func(r *request) { r.Session = bytes.Repeat([]byte("s"), 65) }), "no session": of(func(r *request) { r.Session = nil }),
		"more behind it": append(bytes.Clone(good), 0), "less": good[:len(good)-1], "bound to no host": of(func(r *request) { r.Method = "publickey-hostbound-v00@openssh.com" }),
		"bound to an empty host": of(func(r *request) {
			r.Method, r.More = "publickey-hostbound-v00@openssh.com", []byte{0, 0, 0, 0}
		}),
		"a truth of 2": bytes.Replace(good, []byte("publickey\x01"), []byte("publickey\x02"), 1),
	} {
		if _, err := a.Sign(k, data); err == nil {
			t.Errorf("signed: %s", name)
		}
	}
	if _, err := a.Sign(plain, good); err == nil {
		t.Error("signed with a key that is not listed")
	}
	if _, err := a.Sign(k, good); err != nil {
		t.Errorf("its twin: %v", err)
	}
}

// A client cannot add, remove or lock keys, or use unknown messages.
func TestOnlyListsAndSigns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	raw, a := b.dial(), b.client()
	before := b.cert(a)
	_, private := newKey(t)
	for name, err := range map[string]error{
		"add": a.Add(agent.AddedKey{PrivateKey: private}), "remove": a.Remove(before), "remove all": a.RemoveAll(), "lock": a.Lock([]byte("x")), "unlock": a.Unlock([]byte("x")),
	} {
		if err == nil {
			t.Errorf("%s is done", name)
		}
	}
	if _, err := a.Extension("query", nil); err == nil {
		t.Error("an extension is answered")
	}
	for kind := range 256 {
		if kind == 11 {
			continue
		}
		if _, err := raw.Write([]byte{0, 0, 0, 1, byte(kind)}); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 5)
		if _, err := io.ReadFull(raw, answer); err != nil || !bytes.Equal(answer, []byte{0, 0, 0, 1, 5}) {
			t.Fatalf("message %d: %v, %v", kind, answer, err)
		}
	}
	if after := b.cert(a); !bytes.Equal(after.Blob, before.Blob) {
		t.Error("another certificate")
	}
}

// A message that is too long is not read, and a slow client does not delay
// others.
//
//ebb:invariant I6 The SSH agent refuses to add keys and does not read messages longer than 32 KiB
func TestMessages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, n := range []uint32{0, 32<<10 + 1, 1<<32 - 1} {
		c := b.dial()
		// The message is complete, except the longest one, so that the server does
		// not wait
		_, _ = c.Write(append(binary.BigEndian.AppendUint32(nil, n), bytes.Repeat([]byte{13}, int(min(n, 32<<10+1)))...)) // the connection may be closed
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("answered: %d, %v", n, err)
		}
	}
	c := b.dial() // the longest message that is read; it has no effect
	if _, err := c.Write(append(append(binary.BigEndian.AppendUint32(nil, 32<<10), 13), make([]byte, 32<<10-1)...)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Error(err)
	}
	for range 12 { // each has sent a part of a message
		slow := b.dial()
		if _, err := slow.Write([]byte{0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	a := b.client()
	b.cert(a)
}

// The number of clients is limited; the next is served when one disconnects.
func TestClients(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var held []io.Closer
	for range 16 {
		c := b.dial()
		b.cert(agent.NewClient(c)) // the response makes sure that the client is counted
		held = append(held, c)
	}
	answered := make(chan error, 1)
	a := b.client()
	go func() {
		_, err := a.List()
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("one too many is answered: %v", err)
	case <-time.After(200 * time.Millisecond): // never a reason to fail on a slow machine
	}
	_ = held[0].Close()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// An expired certificate is requested again; a revoked one is removed and not
// requested again; if the state is unknown nothing is signed.
//
//ebb:invariant I2 The SSH agent of `ebb run` never signs with a revoked certificate
func TestEndOfACertificate(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	a := b.client()
	first := b.cert(a)
	b.wait(10 * time.Minute)
	if _, err := a.Sign(first, ssh.Marshal(loginWith(first))); err == nil {
		t.Error("signed with what has expired")
	}
	second := b.cert(a)
	if bytes.Equal(first.Blob, second.Blob) || b.issued != 2 {
		t.Fatalf("%d were issued", b.issued)
	}
	if _, err := a.Sign(second, ssh.Marshal(loginWith(second))); err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	b.doubt = errors.New("ebb is out of reach")
	b.mu.Unlock()
	if _, err := a.Sign(second, ssh.Marshal(loginWith(second))); err == nil {
		t.Error("signed in doubt")
	}
	b.mu.Lock()
	b.doubt = nil
	b.mu.Unlock()
	for _, state := range []wire.LeaseState{"", wire.LeaseRevoking} {
		b.set(state)
		if _, err := a.Sign(second, ssh.Marshal(loginWith(second))); err == nil {
			t.Errorf("signed with a lease that is %q", state)
		}
	}
	b.set(wire.LeaseLive)
	b.wait(time.Hour)
	if list, err := a.List(); err != nil || len(list) != 0 || b.issued != 2 {
		t.Errorf("what was ended is there again: %d, %v", len(list), err)
	}
}

// A revocation during concurrent logins takes effect at once.
//
//ebb:invariant I2 The SSH agent of `ebb run` never signs with a revoked certificate
func TestRevokeAgainstSign(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	a := b.client()
	k := b.cert(a)
	var signing sync.WaitGroup
	var ended atomic.Bool
	for range 8 {
		a := b.client()
		signing.Go(func() {
			for range 100 {
				late := ended.Load()
				if _, err := a.Sign(k, ssh.Marshal(loginWith(k))); err == nil && late {
					t.Error("signed what was asked for after the end")
				}
			}
		})
	}
	b.set(wire.LeaseRevoked)
	ended.Store(true)
	signing.Wait()
	if _, err := a.Sign(k, ssh.Marshal(loginWith(k))); err == nil {
		t.Error("signed after the end")
	}
}

// The issued credential is not trusted: it must be a user certificate over the
// agent's key.
//
//ebb:invariant I6 The SSH agent uses no certificate that was issued for a key other than its own
func TestStrangeCertificates(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(*ssh.Certificate){
		"of a host": func(c *ssh.Certificate) { c.CertType = ssh.HostCert }, "for nobody": func(c *ssh.Certificate) { c.ValidPrincipals = nil },
		"over another key": func(c *ssh.Certificate) { c.Key = newSigner(t).PublicKey() }, "": nil,
	} {
		b := newBed(t)
		b.forge = forge
		a := b.client()
		if list, err := a.List(); err != nil || (len(list) == 1) != (forge == nil) {
			t.Errorf("%s: %d, %v", name, len(list), err)
		}
	}
}

func newKey(t *testing.T) (ssh.PublicKey, any) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key, private
}

// The reason of a refusal is logged for the user that runs the agent, because
// ssh does not print it; a client that repeats it does not flood the log.
//
//ebb:invariant I12 The rate of log lines about refusals of a run's SSH agent is limited
func TestRefusalsAreToldSeldom(t *testing.T) {
	t.Parallel()
	b := newBed(t, hostKeys(t, known(newSigner(t).PublicKey())))
	a, elsewhere := b.client(), b.client()
	k := b.cert(a)
	if _, err := elsewhere.Extension("session-bind@openssh.com", bindTo(t, newSigner(t), session("s"), false)); err != nil {
		t.Fatal(err)
	}
	if list, err := elsewhere.List(); err != nil || len(list) != 0 {
		t.Fatalf("%d certificates, %v", len(list), err)
	}
	if said := b.logged(); !strings.Contains(said, "for a host with this key") || !strings.Contains(said, "host_key=SHA256:") {
		t.Errorf("of another host: %q", said)
	}
	b.mu.Lock()
	b.doubt = broker.ErrTaskPaused
	b.mu.Unlock()
	if list, err := a.List(); err != nil || len(list) != 0 {
		t.Fatalf("%d certificates, %v", len(list), err)
	}
	if said := b.logged(); !strings.Contains(said, broker.ErrTaskPaused.Error()) {
		t.Errorf("of a task that is paused: %q", said)
	}
	for range 200 {
		if _, err := a.Sign(k, ssh.Marshal(loginWith(k))); err == nil {
			t.Fatal("it is signed")
		}
	}
	if said := b.logged(); !strings.Contains(said, "refused") || strings.Count(said, "\n") > 100 {
		t.Errorf("%d lines about 200 refusals: %.400s", strings.Count(said, "\n"), said)
	}
}
