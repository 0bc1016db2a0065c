package keys_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/keys"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newSigner(t testing.TB) jose.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// remote is a key that lives elsewhere: only crypto.Signer is visible.
type remote struct{ inner crypto.Signer }

func (r remote) Public() crypto.PublicKey { return r.inner.Public() }
func (r remote) Sign(rnd io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return r.inner.Sign(rnd, digest, opts)
}

func newKey(t testing.TB, s jose.Signer, from time.Time) keys.Key {
	t.Helper()
	k, err := keys.NewKey(s, from.Add(-time.Hour), from, from.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func secret() []byte { return bytes.Repeat([]byte{7}, 32) }

func kids(t testing.TB, r *keys.Ring, now time.Time) []string {
	t.Helper()
	set, err := jose.ParseJWKS(r.JWKS(now))
	if err != nil {
		t.Fatalf("JWKS(%v): %v", now, err)
	}
	var out []string
	for _, k := range set.Keys() {
		if k.KID == "" || k.Use != "sig" || len(k.Algs) == 0 {
			t.Errorf("published key %+v lacks kid, use or alg", k)
		}
		out = append(out, k.KID)
	}
	return out
}

func TestRingLife(t *testing.T) {
	t.Parallel()
	a, b := newKey(t, newSigner(t), start), newKey(t, remote{newSigner(t)}, start.Add(24*time.Hour))
	policy := keys.Policy{Lead: time.Hour, Grace: 2 * time.Hour}
	ring, err := keys.NewRing(policy, secret(), b, a)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		at     time.Duration
		signer string
		listed []string
	}{
		{"clock before everything", -time.Hour, a.KID, []string{a.KID, b.KID}},
		{"first signs, next is published", time.Hour, a.KID, []string{a.KID, b.KID}},
		{"last moment of the first", 24*time.Hour - 1, a.KID, []string{a.KID, b.KID}},
		{"second signs, first verifies", 24 * time.Hour, b.KID, []string{a.KID, b.KID}},
		{"end of grace", 26*time.Hour - 1, b.KID, []string{a.KID, b.KID}},
		{"first is forgotten", 26 * time.Hour, b.KID, []string{b.KID}},
		{"nobody followed: it signs on", 1000 * time.Hour, b.KID, []string{b.KID}},
	} {
		now := start.Add(tc.at)
		if _, kid, alg, err := ring.Signer(now); err != nil || kid != tc.signer || alg != jose.ES256 {
			t.Errorf("%s: signer %s %s, want %s", tc.name, kid, alg, tc.signer)
		}
		if got := kids(t, ring, now); !slices.Equal(got, tc.listed) {
			t.Errorf("%s: published %v, want %v", tc.name, got, tc.listed)
		}
		if got := len(ring.Keys(now)); got != len(tc.listed) {
			t.Errorf("%s: %d keys, want %d", tc.name, got, len(tc.listed))
		}
	}
}

// H64, A67: tokens of a rotated-out key pass within its grace and never after.
func TestRotatedOutKey(t *testing.T) {
	t.Parallel()
	a, b := newKey(t, newSigner(t), start), newKey(t, remote{newSigner(t)}, start.Add(24*time.Hour))
	ring, err := keys.NewRing(keys.Policy{Grace: 2 * time.Hour}, secret(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	profile := jose.Profile{Types: []string{"at+jwt"}, Algs: []jose.Alg{jose.ES256}, Issuer: "https://ebb.test", AnyAudience: true, MaxLifetime: 1000 * time.Hour}
	sign := func(at time.Time) string {
		s, kid, _, err := ring.Signer(at)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := jose.Sign(s, jose.SignHeader{Type: "at+jwt", KID: kid}, map[string]any{
			"iss": "https://ebb.test", "iat": at.Unix(), "exp": at.Add(900 * time.Hour).Unix()})
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	old, young := sign(start.Add(23*time.Hour)), sign(start.Add(25*time.Hour))
	for _, tc := range []struct {
		name  string
		token string
		at    time.Duration
		want  error
	}{
		{"old, while it signs", old, 23 * time.Hour, nil},
		{"old, in grace", old, 25 * time.Hour, nil},
		{"old, after grace", old, 26 * time.Hour, jose.ErrKeyUnknown},
		{"young", young, 26 * time.Hour, nil},
	} {
		now := start.Add(tc.at)
		if _, err := jose.Verify(tc.token, profile, ring.KeySource(now), now); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	for _, kid := range []string{"", "nope", "../../dev/null", strings.ToUpper(a.KID)} {
		if _, err := ring.KeySource(start)(jose.Header{Alg: jose.ES256, KID: kid}); !errors.Is(err, jose.ErrKeyUnknown) {
			t.Errorf("kid %q: %v, want unknown", kid, err)
		}
	}
}

func TestNewKeyRefuses(t *testing.T) {
	t.Parallel()
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	good := newSigner(t)
	for name, tc := range map[string]struct {
		s                     jose.Signer
		created, from, retire time.Time
	}{
		"no signer":         {nil, start, start, start.Add(time.Hour)},
		"curve":             {p384, start, start, start.Add(time.Hour)},
		"no dates":          {good, time.Time{}, time.Time{}, time.Time{}},
		"active too early":  {good, start, start.Add(-time.Second), start.Add(time.Hour)},
		"retires at once":   {good, start, start, start},
		"retires before":    {good, start, start, start.Add(-time.Hour)},
		"differs by 0.4 s ": {good, start, start, start.Add(400 * time.Millisecond)},
	} {
		if _, err := keys.NewKey(tc.s, tc.created, tc.from, tc.retire); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestNewRingRefuses(t *testing.T) {
	t.Parallel()
	k := newKey(t, newSigner(t), start)
	for name, try := range map[string]func() (*keys.Ring, error){
		"no key":       func() (*keys.Ring, error) { return keys.NewRing(keys.Policy{}, secret()) },
		"zero key":     func() (*keys.Ring, error) { return keys.NewRing(keys.Policy{}, secret(), keys.Key{}) },
		"twice":        func() (*keys.Ring, error) { return keys.NewRing(keys.Policy{}, secret(), k, k) },
		"short secret": func() (*keys.Ring, error) { return keys.NewRing(keys.Policy{}, secret()[:31], k) },
		"alg":          func() (*keys.Ring, error) { return keys.NewRing(keys.Policy{Alg: "HS256"}, secret(), k) },
		"no room": func() (*keys.Ring, error) {
			return keys.NewRing(keys.Policy{RotateEvery: time.Hour, Lead: time.Hour}, secret(), k)
		},
		"negative": func() (*keys.Ring, error) { return keys.NewRing(keys.Policy{Grace: -1}, secret(), k) },
	} {
		if _, err := try(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestZeroRing(t *testing.T) {
	t.Parallel()
	var r keys.Ring
	if _, _, _, err := r.Signer(start); err == nil {
		t.Error("a zero ring signs")
	}
	if _, err := r.KeySource(start)(jose.Header{Alg: jose.ES256, KID: "x"}); !errors.Is(err, jose.ErrKeyUnknown) {
		t.Error("a zero ring verifies")
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	a, err := keys.NewRing(keys.Policy{}, secret(), newKey(t, newSigner(t), start))
	if err != nil {
		t.Fatal(err)
	}
	b, err := keys.NewRing(keys.Policy{}, secret(), newKey(t, ed, start))
	if err != nil {
		t.Fatal(err)
	}
	// Fixed for ever: codes in flight and sealed rows depend on it.
	const want = "27ffdaf7885edb7a7b6029c8d095f5d4061041f3155165ca8acf7dcb7aaa8439"
	if got := hex.EncodeToString(a.Derive("deferral-code")); got != want {
		t.Errorf("Derive = %s, want %s", got, want)
	}
	if !bytes.Equal(a.Derive("dpop-nonce"), b.Derive("dpop-nonce")) {
		t.Error("replicas with one secret derive different keys")
	}
	if bytes.Equal(a.Derive("dpop-nonce"), a.Derive("deferral-code")) {
		t.Error("two names gave one key")
	}
}
