package attest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
)

func nonces(t *testing.T, fill byte) *attest.Nonces {
	t.Helper()
	n, err := attest.NewNonces(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNonces(t *testing.T) {
	t.Parallel()
	n, now := nonces(t, 1), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	nonce, until := n.Issue("tpm", "jkt", now)
	if len(nonce) != 75 || !until.Equal(now.Add(attest.NonceLife)) {
		t.Errorf("got %d characters until %v", len(nonce), until)
	}
	if again, _ := n.Issue("tpm", "jkt", now); again == nonce {
		t.Error("two nonces are equal")
	}
	if got, err := nonces(t, 1).Check(nonce, "tpm", "jkt", now.Add(attest.NonceLife-time.Millisecond)); err != nil || !got.Equal(until) {
		t.Errorf("another replica: %v, %v", got, err)
	}
	altered := []byte(nonce)
	altered[3] ^= 1
	for name, check := range map[string]struct {
		n                    *attest.Nonces
		nonce, attestor, jkt string
		now                  time.Time
		why                  attest.Reason
	}{
		"another ebb":      {nonces(t, 2), nonce, "tpm", "jkt", now, attest.ReasonNonce},
		"another attestor": {n, nonce, "nitro", "jkt", now, attest.ReasonNonce},
		"another key":      {n, nonce, "tpm", "jk", now, attest.ReasonNonce},
		"parts moved":      {n, nonce, "tpmj", "kt", now, attest.ReasonNonce},
		"no key":           {n, nonce, "tpm", "", now, attest.ReasonNonce},
		"altered time":     {n, string(altered), "tpm", "jkt", now, attest.ReasonNonce},
		"empty":            {n, "", "tpm", "jkt", now, attest.ReasonNonce},
		"padded":           {n, nonce + "=", "tpm", "jkt", now, attest.ReasonNonce},
		"newline":          {n, nonce + "\n", "tpm", "jkt", now, attest.ReasonNonce},
		"huge":             {n, strings.Repeat("A", 1<<20), "tpm", "jkt", now, attest.ReasonNonce},
		"too old":          {n, nonce, "tpm", "jkt", until, attest.ReasonExpired},
		"from the future":  {n, nonce, "tpm", "jkt", now.Add(-attest.NonceLife - time.Second), attest.ReasonNotYetValid},
	} {
		_, err := check.n.Check(check.nonce, check.attestor, check.jkt, check.now)
		r, ok := errors.AsType[*attest.Rejection](err)
		if !ok || r.Reason != check.why {
			t.Errorf("%s: got %v, want %s", name, err, check.why)
		}
	}
	if bytes.Equal(n.Secret(nonce, "a", "b"), n.Secret(nonce, "ab")) || !bytes.Equal(n.Secret(nonce, "a"), nonces(t, 1).Secret(nonce, "a")) {
		t.Error("a secret depends on more or less than its nonce and context")
	}
	if _, err := attest.NewNonces(make([]byte, 31)); err == nil {
		t.Error("a short key was accepted")
	}
}

// TestNonceWithoutKey checks that Check refuses an empty key, also for a nonce that was
// issued for an empty key.
func TestNonceWithoutKey(t *testing.T) {
	t.Parallel()
	n, now := nonces(t, 1), time.Unix(1_800_000_000, 0)
	nonce, _ := n.Issue("a", "", now)
	if _, err := n.Check(nonce, "a", "", now); !errors.Is(err, attest.ErrRejected) {
		t.Errorf("got %v", err)
	}
}

// TestSecretIsNoNonce checks that a derived secret, which a kind may send to a client,
// cannot serve as the MAC of a nonce.
func TestSecretIsNoNonce(t *testing.T) {
	t.Parallel()
	n, now := nonces(t, 1), time.Unix(1_800_000_000, 0)
	head := append(binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())), make([]byte, 16)...) //nolint:gosec // after 1970
	forged := base64.RawURLEncoding.EncodeToString(append(head, n.Secret(string(head), "a", "jkt")...))
	if _, err := n.Check(forged, "a", "jkt", now); !errors.Is(err, attest.ErrRejected) {
		t.Errorf("got %v", err)
	}
}
