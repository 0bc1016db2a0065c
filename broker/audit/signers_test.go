package audit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/audit"
)

// numbered is a signing key with the entry that names it.
type numbered struct {
	signer *ecdsa.PrivateKey
	public jose.Key
	set    jose.KeySet
	fact   audit.KeyFact
}

func newNumbered(t *testing.T, n int) *numbered {
	t.Helper()
	k := &numbered{}
	var err error
	if k.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	kid, err := jose.Thumbprint(k.signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	if k.public, err = jose.NewKey(kid, k.signer.Public()); err != nil {
		t.Fatal(err)
	}
	if k.set, err = jose.NewKeySet(k.public); err != nil {
		t.Fatal(err)
	}
	jwk, err := jose.MarshalPublicJWK(k.public)
	if err != nil {
		t.Fatal(err)
	}
	k.fact = audit.KeyFact{KID: kid, Number: n, JWK: jwk}
	return k
}

func (k *numbered) seal(t *testing.T, at time.Time, e audit.Entry) audit.Checkpoint {
	t.Helper()
	c, err := audit.SignCheckpoint(k.signer, k.public.KID, at, map[string]audit.Head{e.Writer: {Seq: e.Seq, Hash: e.Hash}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// chained links entries of these kinds and data into one chain.
func chained(t *testing.T, facts ...any) []audit.Entry {
	t.Helper()
	c, err := audit.NewChain("a")
	if err != nil {
		t.Fatal(err)
	}
	var out []audit.Entry
	for i, f := range facts {
		e := audit.Entry{At: epoch.Add(time.Duration(i) * time.Minute), Kind: audit.PolicyReloaded, Actor: "ebb"}
		if fact, is := f.(audit.KeyFact); is {
			e.Kind = audit.KeyAdded
			if !fact.Since.IsZero() {
				e.Kind = audit.KeyRevoked
			}
			if e.Data, err = json.Marshal(fact); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Link(&e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// Checkpoints of a lost key stay valid if a given key's checkpoint covers the entry that names the
// lost key.
//
//ebb:invariant I11 A signing key that only the audit log names counts once a checkpoint of a trusted key covers the entry that names it
func TestVerifyKeysOfTheRecord(t *testing.T) {
	t.Parallel()
	one, two, three := newNumbered(t, 1), newNumbered(t, 2), newNumbered(t, 3)
	a := chained(t, one.fact, nil, two.fact, nil, three.fact, nil)
	first, second, third := one.seal(t, epoch.Add(time.Hour), a[2]), two.seal(t, epoch.Add(2*time.Hour), a[4]), three.seal(t, epoch.Add(3*time.Hour), a[5])
	for name, k := range map[string]*numbered{"the oldest, which vouches for the next, and that for the next": one, "the newest, which vouches for all": three} {
		r, err := audit.Verify(join(export(t, a, first, second, third)), k.set)
		if err != nil || !r.Whole() || r.Checkpoints != 3 || r.Unsealed != 0 || len(r.Keys) != 3 {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
	stranger := newNumbered(t, 9)
	wantFault(t, "none is given", export(t, a, first, second, third), stranger.set, 9, "key 1 ("+one.public.KID+")")
	wantFault(t, "a key that no entry names", export(t, a, first, stranger.seal(t, epoch.Add(time.Hour), a[5])), one.set, 8, "key "+stranger.public.KID+" is missing")
	// A rewritten log that names a key of its own has no checkpoint of a key that the auditor has.
	forged := chained(t, one.fact, stranger.fact, nil)
	wantFault(t, "a forger's key", export(t, forged, stranger.seal(t, epoch.Add(time.Hour), forged[2])), one.set, 4, "is named by this audit log alone")
}

// Checkpoints by a leaked key from after its revocation do not count.
//
//ebb:invariant I11 The verifier does not count checkpoints that a key signed after its revocation
func TestVerifyRevokedKeys(t *testing.T) {
	t.Parallel()
	one, two := newNumbered(t, 1), newNumbered(t, 2)
	gone := one.fact
	gone.Since = epoch.Add(90 * time.Minute)
	a := chained(t, one.fact, nil, gone, two.fact, nil)
	before, after := one.seal(t, epoch.Add(time.Hour), a[1]), one.seal(t, epoch.Add(2*time.Hour), a[4])
	both, err := jose.NewKeySet(one.public, two.public)
	if err != nil {
		t.Fatal(err)
	}
	r, err := audit.Verify(join(export(t, a, before, after)), both)
	if err != nil || r.Checkpoints != 1 || r.Revoked != 1 || r.Unsealed != 3 {
		t.Errorf("got %+v %v, want only the earlier checkpoints", r, err)
	}
	other := a[4]
	other.Hash = strings.Repeat("0", 64)
	forged := one.seal(t, epoch.Add(2*time.Hour), other)
	r, err = audit.Verify(join(export(t, a, before, forged, two.seal(t, epoch.Add(3*time.Hour), a[4]))), both)
	if err != nil || r.Checkpoints != 2 || r.Revoked != 1 || r.Unsealed != 0 || !slices.Contains(r.Keys, two.public.KID) {
		t.Errorf("a forged checkpoint of it: %+v %v, want that it says nothing", r, err)
	}
	wantFault(t, "checkpoint before the entry", export(t, a[:2], one.seal(t, epoch.Add(2*time.Hour), a[1]), a[2:]), both, 4, "stand before this entry")
}

// An export continues from the heads that were held before, or it proves nothing.
//
//ebb:invariant I11 The verifier rejects an export that does not continue from the given heads of an earlier export
func TestVerifyAgainst(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	a := link(t, "a", 5)
	held := func(e audit.Entry) map[string]audit.Head {
		return map[string]audit.Head{e.Writer: {Seq: e.Seq, Hash: e.Hash}}
	}
	whole := export(t, a, k.seal(t, a[4]))
	for i, e := range a {
		if _, err := audit.VerifyAgainst(join(whole), k.set, nil, held(e)); err != nil {
			t.Errorf("against seq %d: %v", i+1, err)
		}
	}
	other := a[2]
	other.Hash = strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		lines []string
		held  audit.Entry
		why   string
	}{
		"another entry":   {whole, other, "was another one"},
		"an older record": {export(t, a[:3], k.seal(t, a[2])), a[4], "does not continue the earlier state"},
		"another chain":   {whole, link(t, "b", 1)[0], "does not continue the earlier state"},
		"only the end":    {export(t, a[3:], k.seal(t, a[4])), a[2], "does not continue the earlier state"},
	} {
		_, err := audit.VerifyAgainst(join(c.lines), k.set, nil, held(c.held))
		if f, is := errors.AsType[*audit.Fault](err); !is || !strings.Contains(f.Why, c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
}

// A filtered export proves no chain, and the error says why.
//
//ebb:invariant I11 The verifier reports that a filtered export proves no complete chain, and names the filter
func TestVerifyFiltered(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	a := link(t, "a", 5)
	line := audit.Filter{Kind: "lease."}.Line()
	some := []audit.Entry{a[1], a[4]}
	_, err := audit.Verify(join(export(t, line, some, k.seal(t, a[4]))), k.set)
	part, is := errors.AsType[*audit.FilteredError](err)
	if !is || part.Entries != 2 || part.Signed != 1 || part.Filter.Kind != "lease." || !strings.Contains(part.Error(), "kind=lease.") {
		t.Errorf("got %v, want a FilteredError", err)
	}
	changed := a[1]
	changed.Actor = "cj"
	wantFault(t, "a changed entry", export(t, line, changed), k.set, 2, "the entry was changed")
	wantFault(t, "not first", export(t, a, line), k.set, 6, "in its first line")
	wantFault(t, "twice", export(t, line, line), k.set, 2, "in its first line")
	wantFault(t, "no filter", []string{`{"filter":{}}`}, k.set, 1, "cannot be read")
	wantFault(t, "a foreign member", []string{`{"filter":{"kind":"a","x":1}}`}, k.set, 1, "cannot be read")
	if l := (audit.Filter{}).Line(); l != nil {
		t.Errorf("a whole export begins with %v", l)
	}
	if audit.IsEntry([]byte(`{"filter":{"kind":"lease."}}`)) {
		t.Error("the line is taken for an entry")
	}
}
