package krl_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

// keygen runs the real ssh-keygen.
func keygen(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(counterpart.Program(t, "ssh-keygen"), args...).CombinedOutput()
	return string(out), err
}

func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := keygen(t, args...)
	if err != nil {
		t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
	}
	return out
}

// caBlob makes a CA and gives the blob of its public key.
func caBlob(t *testing.T, path string) []byte {
	t.Helper()
	must(t, "-q", "-t", "ed25519", "-N", "", "-f", path)
	line, err := os.ReadFile(path + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(strings.Fields(string(line))[1])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSSHKeygenReadsOurs: ssh-keygen -Q reads the lists of this package.
func TestSSHKeygenReadsOurs(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, other := caBlob(t, file("ca")), caBlob(t, file("other"))
	must(t, "-q", "-t", "ed25519", "-N", "", "-f", file("id"))
	const serial, keyID = "18446744073709551615", "lease:lse_1/ebb-1"
	must(t, "-q", "-s", file("ca"), "-I", keyID, "-n", "bo", "-z", serial, file("id.pub"))
	for name, c := range map[string]struct {
		list krl.List
		want bool
	}{
		"nothing":             {krl.List{}, false},
		"an empty section":    {krl.List{Certs: []krl.Certs{{CA: ca}}}, false},
		"its serial":          {krl.List{Certs: []krl.Certs{{CA: ca, Serials: []krl.Range{krl.One(3), krl.One(1<<64 - 1)}}}}, true},
		"its serial, two CAs": {krl.List{Certs: []krl.Certs{{CA: other, Serials: []krl.Range{krl.One(1)}}, {CA: ca, Serials: []krl.Range{{Lo: 5, Hi: 1<<64 - 1}}}}}, true},
		"another serial":      {krl.List{Certs: []krl.Certs{{CA: ca, Serials: []krl.Range{{Lo: 1, Hi: 1<<64 - 2}}}}}, false},
		"another CA":          {krl.List{Certs: []krl.Certs{{CA: other, Serials: []krl.Range{krl.One(1<<64 - 1)}}}}, false},
		"its key id":          {krl.List{Certs: []krl.Certs{{CA: ca, KeyIDs: []string{keyID}}}}, true},
		"every CA":            {krl.List{Certs: []krl.Certs{{Serials: []krl.Range{krl.One(1<<64 - 1)}}}}, true},
		"its CA's key":        {krl.List{Keys: [][]byte{ca}}, true},
	} {
		if err := os.WriteFile(file("krl"), c.list.Marshal(), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := keygen(t, "-Q", "-f", file("krl"), file("id-cert.pub"))
		if revoked := err != nil && strings.Contains(out, "REVOKED"); revoked != c.want || err != nil && !revoked {
			t.Errorf("%s: ssh-keygen says %q %v", name, out, err)
		}
	}
}

// TestWeReadSSHKeygens: Parse reads the lists of ssh-keygen -k, which selects list, range or
// bitmap by size.
func TestWeReadSSHKeygens(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca := caBlob(t, file("ca"))
	must(t, "-q", "-t", "ed25519", "-N", "", "-f", file("id"))
	var spec strings.Builder
	var listed []uint64
	for i := range uint64(200) { // dense and holed: a bitmap
		if i%3 != 0 {
			listed = append(listed, 1000+i)
		}
	}
	listed = append(listed, 1, 1<<40, 1<<63, 1<<64-1)
	for _, n := range listed {
		fmt.Fprintf(&spec, "serial: %d\n", n)
	}
	spec.WriteString("serial: 5000-9000\nid: lease:lse_1/ebb-1\n")
	if err := os.WriteFile(file("spec"), []byte(spec.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "-q", "-k", "-f", file("krl"), "-s", file("ca.pub"), "-z", "42", file("spec"))
	must(t, "-q", "-k", "-u", "-f", file("krl"), file("id.pub"))
	b, err := os.ReadFile(file("krl"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := krl.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	revoked := func(n uint64) bool { return l.Revokes(krl.Subject{Key: []byte("k"), CA: ca, Serial: n}) }
	for n := range uint64(10_000) {
		want := slices.Contains(listed, n) || n >= 5000 && n <= 9000
		if revoked(n) != want {
			t.Errorf("serial %d: %v", n, !want)
		}
	}
	if !revoked(1<<40) || !revoked(1<<63) || !revoked(1<<64-1) || revoked(1<<64-2) {
		t.Error("large serials are wrong")
	}
	if !l.Revokes(krl.Subject{Key: []byte("k"), CA: ca, KeyID: "lease:lse_1/ebb-1"}) || len(l.Keys)+len(l.SHA1)+len(l.SHA256) != 1 {
		t.Errorf("key id or key is missing: %d keys", len(l.Keys))
	}
	// Written by us again, ssh-keygen still understands it.
	if err := os.WriteFile(file("ours"), l.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := keygen(t, "-Q", "-f", file("ours"), file("id.pub")); err == nil || !strings.Contains(out, "REVOKED") {
		t.Errorf("ssh-keygen on ours: %q %v", out, err)
	}
	if out := must(t, "-Q", "-l", "-f", file("ours")); !bytes.Contains([]byte(out), []byte("serial: 5000-9000")) {
		t.Errorf("ssh-keygen -Q -l: %s", out)
	}
}
