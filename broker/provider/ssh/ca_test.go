package ssh_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/provider/ssh"
)

func TestCAKeyIsMadeOnceAndIsPrivate(t *testing.T) {
	r := newRig(t, nil)
	files, err := filepath.Glob(r.dir + "/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f, info.Mode())
		}
	}
	one, err := r.Authorities()
	if err != nil || !strings.HasPrefix(string(one), "ssh-ed25519 ") || !strings.HasSuffix(string(one), " ebb-ssh\n") {
		t.Errorf("%q %v", one, err)
	}
	if two, err := r.again(t).Authorities(); err != nil || string(two) != string(one) {
		t.Errorf("a restart has another CA: %q %v", two, err)
	}
	if err := os.Chmod(files[len(files)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ssh.New(ssh.Config{Name: "ssh", Options: r.o, Dir: r.dir, Now: r.clock.now, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a CA key that others can read is used")
	}
}

// TestRotationOverlaps: a certificate of the old key is accepted and can be revoked until its
// expiry. The next key is published before it signs.
func TestRotationOverlaps(t *testing.T) {
	r := newRig(t, nil)
	old := r.mint(t, r.grant(t, "ssh:web/bo:login"))
	ring, err := keys.Open(keys.Config{Dir: r.dir, Now: r.clock.now, Policy: keys.Policy{Alg: "EdDSA", RotateEvery: 1000 * time.Hour, Lead: 24 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Rotate(r.clock.now()); err != nil {
		t.Fatal(err)
	}
	d := r.again(t)
	if n := len(trusted(t, d)); n != 2 {
		t.Fatalf("%d CA keys are published", n)
	}
	if c := r.mint(t, r.grant(t, "ssh:web/bo:login")); string(c.SignatureKey.Marshal()) != string(old.SignatureKey.Marshal()) {
		t.Error("the next key signs at once")
	}
	r.clock.forward(24*time.Hour - time.Minute)
	last := r.grant(t, "ssh:web/bo:login")
	cert := r.mint(t, last)
	r.clock.forward(2 * time.Minute)
	r.Driver = d
	fresh := r.grant(t, "ssh:web/bo:login")
	next := r.mint(t, fresh)
	if string(next.SignatureKey.Marshal()) == string(old.SignatureKey.Marshal()) {
		t.Error("the next key does not sign after its lead")
	}
	for _, c := range []*xssh.Certificate{cert, next} {
		if err := accepts(t, d, c, "bo@web", r.clock.now()); err != nil {
			t.Errorf("in the overlap: %v", err)
		}
	}
	if err := d.Revoke(t.Context(), target(last)); err != nil {
		t.Fatal(err)
	}
	if err := accepts(t, d, cert, "bo@web", r.clock.now()); err == nil {
		t.Error("a certificate of the old key is not revoked")
	}
	if err := accepts(t, d, next, "bo@web", r.clock.now()); err != nil {
		t.Errorf("the other certificate: %v", err)
	}
	r.clock.forward(2 * time.Hour)
	if n := len(trusted(t, d)); n != 1 {
		t.Errorf("%d CA keys are published after the overlap", n)
	}
}

func TestCAFromAFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode, b []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKey(private, "ca")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := xssh.MarshalPrivateKeyWithPassphrase(private, "ca", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	next := newKey(t)
	with := func(file string, trust ...string) func(o *ssh.Options) {
		return func(o *ssh.Options) { o.CA = ssh.CAOptions{KeyFile: file, Trusted: trust} }
	}
	r := newRig(t, with(write("ca", 0o600, pem.EncodeToMemory(block)), write("next.pub", 0o644, []byte(next+" next\n"))))
	got := trusted(t, r.Driver)
	if len(got) != 2 || line(t, pub) != strings.TrimSpace(string(xssh.MarshalAuthorizedKey(got[0]))) || strings.TrimSpace(string(xssh.MarshalAuthorizedKey(got[1]))) != next {
		t.Errorf("published %d keys", len(got))
	}
	if c := r.mint(t, r.grant(t, "ssh:web/bo:login")); string(c.SignatureKey.Marshal()) != string(got[0].Marshal()) {
		t.Error("another key signed")
	}
	if _, err := os.Stat(r.dir); !os.IsNotExist(err) {
		t.Errorf("a key was made beside the file: %v", err)
	}
	for name, spoil := range map[string]func(*ssh.Options){
		"passphrase":          with(write("sealed", 0o600, pem.EncodeToMemory(sealed))),
		"others can read it":  with(write("open", 0o644, pem.EncodeToMemory(block))),
		"the public half":     with(write("pub", 0o600, []byte(next))),
		"trusted is private":  with(filepath.Join(dir, "ca"), filepath.Join(dir, "ca")),
		"trusted is two keys": with(filepath.Join(dir, "ca"), write("two.pub", 0o644, []byte(next+"\n"+newKey(t)+"\n"))),
		"trusted is missing":  with(filepath.Join(dir, "ca"), filepath.Join(dir, "none")),
	} {
		o := options()
		spoil(&o)
		if _, err := ssh.New(ssh.Config{Name: "ssh", Options: o, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "PRIVATE KEY-----") {
			t.Errorf("%s: the error shows a key", name)
		}
	}
}
