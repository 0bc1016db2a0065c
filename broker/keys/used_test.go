package keys_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/keys"
)

// A key whose file was lost leaves its number and its public half.
//
//ebb:invariant I11 A signing key whose private file is lost keeps its number and its public half
func TestLostKeysKeepTheirNumber(t *testing.T) {
	t.Parallel()
	dir, now := filepath.Join(t.TempDir(), "keys"), time.Now()
	used, err := open(t, dir, now).Numbered()
	if err != nil || len(used) != 1 || used[0].Number != 1 {
		t.Fatalf("got %v %v", used, err)
	}
	if err := os.Remove(filepath.Join(dir, "sign-000001.key")); err != nil {
		t.Fatal(err)
	}
	c := config(dir, now)
	c.Used = used
	for range 2 { // the second start finds all as it is
		d, err := keys.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		if got := files(t, dir); !slices.Equal(got, []string{"secret.key", "sign-000001.pub", "sign-000002.key"}) {
			t.Errorf("got %v", got)
		}
		all, err := d.Numbered()
		if err != nil || len(all) != 2 || all[0].KID != used[0].KID || all[1].Number != 2 {
			t.Errorf("got %v %v", all, err)
		}
		if _, err := d.Ring().KeySource(now)(jose.Header{KID: used[0].KID}); err == nil {
			t.Error("tokens of the lost key are accepted")
		}
	}
}

// A key that is given up signs and verifies nothing, and its public half stays.
//
//ebb:invariant I11 A revoked signing key signs nothing more, and tokens that it signed are refused
func TestRevokeKey(t *testing.T) {
	t.Parallel()
	dir, now := filepath.Join(t.TempDir(), "keys"), time.Now()
	d := open(t, dir, now)
	_, kid, _, err := d.Ring().Signer(now)
	if err != nil {
		t.Fatal(err)
	}
	next, err := d.Rotate(now) // published, and does not sign yet
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Revoke(now, kid); err != nil {
		t.Fatal(err)
	}
	_, signs, _, err := d.Ring().Signer(now)
	if err != nil || signs == kid || signs == next {
		t.Errorf("signs: %s %v, want a new key that signs at once", signs, err)
	}
	if _, err := d.Ring().KeySource(now)(jose.Header{KID: kid}); err == nil {
		t.Error("tokens of the revoked key are accepted")
	}
	if got := files(t, dir); !slices.Equal(got, []string{"secret.key", "sign-000001.pub", "sign-000002.key", "sign-000003.key"}) {
		t.Errorf("got %v", got)
	}
	if err := d.Revoke(now, kid); err == nil {
		t.Error("revoked twice")
	}
	if err := d.Revoke(now, next); err != nil { // one that does not sign yet needs no other
		t.Error(err)
	}
}
