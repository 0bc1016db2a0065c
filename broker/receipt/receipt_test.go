package receipt_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/receipt"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func key(t testing.TB) (jose.Signer, jose.KeySet) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := jose.NewKey("k1", k.Public())
	if err != nil {
		t.Fatal(err)
	}
	set, err := jose.NewKeySet(public)
	if err != nil {
		t.Fatal(err)
	}
	return k, set
}

func built(t testing.TB, n int, change func(i int, c *receipt.Credential)) receipt.Receipt {
	t.Helper()
	b := receipt.NewBuilder(receipt.Receipt{Issuer: "https://ebb.test", IssuedAt: epoch.Unix(), Task: "tsk_1", ClosedAt: epoch, Cause: "completed", Live: n})
	for i := range n {
		c := receipt.Credential{
			Lease: fmt.Sprintf("lse_%05d", i), Provider: "up", Scope: "up:a:read", Class: "instant", State: "revoked",
			RevokedAt: epoch, AcceptedAt: epoch, DeadAt: epoch, Proof: "probed", ProbedAt: epoch,
		}
		if change != nil {
			change(i, &c)
		}
		if err := b.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	return b.Receipt()
}

func TestReceiptSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	signer, keys := key(t)
	for name, c := range map[string]struct {
		n        int
		change   func(int, *receipt.Credential)
		complete bool
	}{
		"none":                {0, nil, true},
		"one":                 {1, nil, true},
		"many":                {receipt.Shown + 3, nil, true},
		"pending_revocations": {2, func(i int, c *receipt.Credential) { c.State, c.Proof, c.DeadAt = "revoking", "", time.Time{} }, false},
		"pending later": {receipt.Shown + 2, func(i int, c *receipt.Credential) {
			if i == receipt.Shown+1 {
				c.State, c.Proof, c.DeadAt = "revoking", "", time.Time{}
			}
		}, false},
		"forced":       {1, func(_ int, c *receipt.Credential) { c.State, c.Proof = "unconfirmed", "forced" }, false},
		"nobody knows": {1, func(_ int, c *receipt.Credential) { c.State, c.Proof = "unconfirmed", "none" }, false},
		"expired":      {1, func(_ int, c *receipt.Credential) { c.State, c.Proof = "unconfirmed", "expired" }, true},
		"live still":   {1, func(_ int, c *receipt.Credential) { c.State = "live" }, false},
	} {
		r := built(t, c.n, c.change)
		if r.Complete != c.complete || r.Total != c.n || len(r.Credentials) != min(c.n, receipt.Shown) || (r.Rest != nil) != (c.n > receipt.Shown) {
			t.Errorf("%s: %+v", name, r)
		}
		jws, err := receipt.Sign(signer, "k1", r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := receipt.Verify(jws, keys, "https://ebb.test", epoch)
		if err != nil || got.Complete != r.Complete || got.Total != r.Total || len(got.Credentials) != len(r.Credentials) {
			t.Errorf("%s: %+v (%v)", name, got, err)
		}
	}
	a, b := built(t, receipt.Shown+2, nil), built(t, receipt.Shown+2, func(i int, c *receipt.Credential) {
		if i > receipt.Shown {
			c.Attempts++
		}
	})
	if a.Rest.SHA256 == b.Rest.SHA256 {
		t.Error("other credentials have the same digest")
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	signer, keys := key(t)
	other, _ := key(t)
	good, err := receipt.Sign(signer, "k1", built(t, 3, nil))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(typ, kid string, s jose.Signer, claims any) string {
		jws, err := jose.Sign(s, jose.SignHeader{Type: typ, KID: kid}, claims)
		if err != nil {
			t.Fatal(err)
		}
		return jws
	}
	lies := func(change func(*receipt.Receipt)) string {
		r := built(t, 3, func(i int, c *receipt.Credential) {
			if i == 1 {
				c.State, c.Proof, c.DeadAt = "revoking", "", time.Time{}
			}
		})
		change(&r)
		return sign(receipt.Type, "k1", signer, r)
	}
	parts := strings.Split(good, ".")
	for name, jws := range map[string]string{
		"nothing":       "",
		"another key":   sign(receipt.Type, "k1", other, built(t, 1, nil)),
		"no kid":        sign(receipt.Type, "", signer, built(t, 1, nil)),
		"another type":  sign("at+jwt", "k1", signer, built(t, 1, nil)),
		"no receipt":    sign(receipt.Type, "k1", signer, map[string]any{"iss": "https://ebb.test"}),
		"unknown part":  sign(receipt.Type, "k1", signer, map[string]any{"iss": "https://ebb.test", "iat": epoch.Unix(), "more": 1}),
		"altered":       parts[0] + "." + parts[1][:len(parts[1])-4] + "AAAA." + parts[2],
		"cut":           parts[0] + "." + parts[1] + ".",
		"claims more":   lies(func(r *receipt.Receipt) { r.Complete = true }),
		"leaves out":    lies(func(r *receipt.Receipt) { r.Credentials = r.Credentials[:1] }),
		"hides states":  lies(func(r *receipt.Receipt) { r.States = map[string]int{"revoked": 3} }),
		"twice the one": lies(func(r *receipt.Receipt) { r.Credentials[1] = r.Credentials[0] }),
		"empty rest":    lies(func(r *receipt.Receipt) { r.Rest = &receipt.Rest{} }),
		"from tomorrow": lies(func(r *receipt.Receipt) { r.IssuedAt += 86400 }),
		"too large":     strings.Repeat("a", 2<<20),
	} {
		if r, err := receipt.Verify(jws, keys, "https://ebb.test", epoch); err == nil {
			t.Errorf("%s: accepted as %+v", name, r)
		}
	}
	if _, err := receipt.Verify(good, keys, "https://other.test", epoch); err == nil {
		t.Error("a receipt of another issuer is accepted")
	}
	if _, err := receipt.Verify(good, keys, "", epoch.Add(1000*time.Hour)); err != nil {
		t.Errorf("an old receipt is as good as a new one: %v", err)
	}
	if _, err := receipt.Sign(signer, "k1", receipt.Receipt{}); err == nil {
		t.Error("an empty receipt was signed")
	}
}

// Golden: the encoding of a receipt never changes under who keeps one.
func TestReceiptEncoding(t *testing.T) {
	t.Parallel()
	signer, keys := key(t)
	jws, err := receipt.Sign(signer, "k1", built(t, 1, nil))
	if err != nil {
		t.Fatal(err)
	}
	c, err := jose.Parse(jws, jose.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"iss":"https://ebb.test","iat":1767323045,"task":"tsk_1","closed_at":"2026-01-02T03:04:05Z","cause":"completed","live":1,"expired":0,` +
		`"complete":true,"third_party":1,"states":{"revoked":1},"credentials":[{"lease":"lse_00000","provider":"up","scope":"up:a:read","class":"instant",` +
		`"state":"revoked","revoked_at":"2026-01-02T03:04:05Z","accepted_at":"2026-01-02T03:04:05Z","dead_at":"2026-01-02T03:04:05Z","proof":"probed",` +
		`"probed_at":"2026-01-02T03:04:05Z","attempts":0}]}`
	if got := string(c.Claims().Payload()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := receipt.Verify(jws, keys, "", epoch); err != nil {
		t.Error(err)
	}
}

func FuzzVerify(f *testing.F) {
	signer, keys := key(f)
	jws, err := receipt.Sign(signer, "k1", built(f, 2, nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(jws)
	f.Add("a.b.c")
	f.Add(strings.Replace(jws, ".", "..", 1))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := receipt.Verify(text, keys, "", epoch)
		if err == nil && (r.Task != "tsk_1" || r.Total != 2) {
			t.Errorf("accepted %q as %+v", text, r)
		}
	})
}
