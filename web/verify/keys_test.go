package verify_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/keys"
)

// rotated returns a ring whose keys are those given; the last one signs.
func rotated(t *testing.T, signers ...jose.Signer) *keys.Ring {
	t.Helper()
	var list []keys.Key
	for i, s := range signers {
		at := time.Now().Add(time.Duration(i-len(signers)) * time.Minute)
		k, err := keys.NewKey(s, at, at, at.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, k)
	}
	r, err := keys.NewRing(keys.Policy{}, make([]byte, 32), list...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const jwks = "/.well-known/jwks.json"
		w := newWorld(t, time.Now)
		first, second := p256(t), ed(t)
		w.ring = rotated(t, first)
		v := w.running(w.config())
		old := w.token(nil)
		if _, err := v.Verify(w.request(old)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second) // past the back-off of the fetch at the start

		// A new key is found when its first token arrives.
		before := w.count(jwks)
		w.set(func() { w.ring = rotated(t, first, second) })
		if _, err := v.Verify(w.request(w.token(nil))); err != nil {
			t.Errorf("new key: %v", err)
		}
		if n := w.count(jwks) - before; n != 1 {
			t.Errorf("%d fetches, want 1", n)
		}
		if _, err := v.Verify(w.request(old)); err != nil {
			t.Errorf("old key in grace: %v", err)
		}

		// Unknown kids cannot cause many requests to the issuer.
		mallory := p256(t)
		before = w.count(jwks)
		for i := range 100 {
			raw := attesttest.Forge(t, mallory, map[string]any{"alg": "ES256", "typ": "at+jwt", "kid": fmt.Sprint("k", i)}, w.claims())
			if _, err := v.Verify(w.request(raw)); fault(err) != "401 invalid_token" {
				t.Errorf("unknown kid: %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := w.count(jwks) - before; n > 2 {
			t.Errorf("unknown kids made %d fetches in 10 s", n)
		}

		// A withdrawn key invalidates its cached tokens.
		w.set(func() { w.ring = rotated(t, second) })
		time.Sleep(6 * time.Minute)
		if _, err := v.Verify(w.request(w.token(nil))); err != nil {
			t.Errorf("the key that stayed: %v", err)
		}
		if _, err := v.Verify(w.request(old)); fault(err) != "401 invalid_token" {
			t.Errorf("H64 withdrawn key: %v", err)
		}
	})
}

func TestKeysUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		signer := p256(t)
		w.ring = rotated(t, signer)
		w.keyDown = true
		v := w.verifier(w.config())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = v.Run(ctx) }()
		time.Sleep(5 * time.Second)
		if _, err := v.Verify(w.request(w.token(nil))); fault(err) != "503" || v.Ready() == nil {
			t.Errorf("never read: %v", err)
		}
		w.set(func() { w.keyDown = false })
		time.Sleep(11 * time.Second)
		if _, err := v.Verify(w.request(w.token(nil))); err != nil {
			t.Errorf("after the keys were read: %v", err)
		}
		// The last good set stays in use through outages and invalid responses.
		for name, bad := range map[string]string{"outage": "", "empty": `{"keys":[]}`, "not JSON": `<html>`, "private": `{"keys":[{"kty":"EC","crv":"P-256","x":"a","y":"b","d":"c"}]}`} {
			w.set(func() { w.keyDown, w.jwks = bad == "", []byte(bad) })
			time.Sleep(6 * time.Minute)
			if _, err := v.Verify(w.request(w.token(nil))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			// A token with an unknown kid gets 503 then, because its key may be
			// new.
			w.set(func() { w.ring = rotated(t, p256(t)) })
			if _, err := v.Verify(w.request(w.token(nil))); fault(err) != "503" {
				t.Errorf("%s: unknown kid: %v", name, err)
			}
			w.set(func() { w.ring = rotated(t, signer) })
		}
	})
}

// The cache never extends the lifetime of a token.
func TestCacheEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []int{0, 1, -1} {
			w := newWorld(t, time.Now)
			cfg := w.config()
			cfg.CacheSize = size
			v := w.running(cfg)
			end := w.now().Add(20 * time.Second).Truncate(time.Second)
			raw := w.token(with("exp", end.Unix()))
			for range 2 {
				if _, err := v.Verify(w.request(raw)); err != nil {
					t.Fatal(err)
				}
				if _, err := v.Verify(w.request(w.token(nil))); err != nil { // pushes it out of a small cache
					t.Fatal(err)
				}
			}
			time.Sleep(time.Until(end) - 10*time.Millisecond)
			if _, err := v.Verify(w.request(raw)); err != nil {
				t.Errorf("size %d: just before its end: %v", size, err)
			}
			time.Sleep(10 * time.Millisecond)
			if _, err := v.Verify(w.request(raw)); fault(err) != "401 invalid_token" {
				t.Errorf("size %d: after its end: %v", size, err)
			}
		}
	})
}
