package sshagent_test

//lint:file-ignore SA1019 what is deprecated is here to be refused

import (
	"crypto/dsa"
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"golang.org/x/crypto/ssh"
)

// A session-bind request that is signed with SHA-1 or DSA does not bind.
func TestWeakBindings(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	byRSA, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	var dead dsa.PrivateKey
	if err := dsa.GenerateParameters(&dead.Parameters, rand.Reader, dsa.L1024N160); err != nil {
		t.Fatal(err)
	}
	if err := dsa.GenerateKey(&dead, rand.Reader); err != nil {
		t.Fatal(err)
	}
	byDSA, err := ssh.NewSignerFromKey(&dead)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host      ssh.Signer
		algorithm string
		binds     bool
	}{{byRSA, ssh.KeyAlgoRSASHA256, true}, {byRSA, ssh.KeyAlgoRSASHA512, true}, {byRSA, ssh.KeyAlgoRSA, false}, {byDSA, ssh.InsecureKeyAlgoDSA, false}} {
		signature, err := c.host.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, session("s"), c.algorithm)
		if err != nil {
			t.Fatal(c.algorithm, err)
		}
		if err := c.host.PublicKey().Verify(session("s"), signature); err != nil {
			t.Fatalf("%s: refused for another reason: %v", c.algorithm, err)
		}
		b := newBed(t, hostKeys(t, known(c.host.PublicKey())))
		a := b.client()
		k := b.cert(a)
		_, bound := a.Extension("session-bind@openssh.com", ssh.Marshal(struct {
			Key, Session, Signature []byte
			Forwarding              bool
		}{c.host.PublicKey().Marshal(), session("s"), ssh.Marshal(signature), false}))
		if _, err := a.Sign(k, ssh.Marshal(loginWith(k))); (err == nil) != c.binds || (bound == nil) != c.binds {
			t.Errorf("%s: bound: %v, signed: %v", c.algorithm, bound, err)
		}
	}
}
