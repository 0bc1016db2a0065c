package tpm_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/tpm"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	good := newBox(f.maker)
	other := newBox(newMaker(t, f.clock.Now()))
	attesttest.Run(t, attesttest.Suite{
		Attestor: f.Attestor, Clock: f.clock, Fresh: attest.NonceLife,
		Good: func(t *testing.T) attest.Evidence { return f.walk(t, good, attesttest.NewKey(t)) },
		Bad: map[string]func(t *testing.T) attest.Evidence{
			"wrong audience": func(t *testing.T) attest.Evidence {
				k := attesttest.NewKey(t)
				nonce, _ := newNonces(8).Issue("tpm", k.JKT, f.clock.Now())
				return evidence(good.answers(nonce, make([]byte, 32)), k)
			},
			"wrong issuer": func(t *testing.T) attest.Evidence { return f.know(other, attesttest.NewKey(t)) },
			"wrong key": func(t *testing.T) attest.Evidence {
				e := f.walk(t, good, attesttest.NewKey(t))
				e.Key = attesttest.NewKey(t)
				return e
			},
			"no key": func(t *testing.T) attest.Evidence {
				e := f.walk(t, good, attesttest.NewKey(t))
				e.Key = attest.Key{}
				return e
			},
			"expired": func(t *testing.T) attest.Evidence {
				b := newBox(f.maker)
				b.chain = f.maker.certify(b.ek.Public(), func(c *x509.Certificate) { c.NotAfter = f.clock.Now().Add(-time.Second) })
				return f.know(b, attesttest.NewKey(t))
			},
			"not yet valid": func(t *testing.T) attest.Evidence {
				b := newBox(f.maker)
				b.chain = f.maker.certify(b.ek.Public(), func(c *x509.Certificate) { c.NotBefore = f.clock.Now().Add(time.Second) })
				return f.know(b, attesttest.NewKey(t))
			},
			"another attestor's nonce": func(t *testing.T) attest.Evidence {
				k := attesttest.NewKey(t)
				nonce, _ := f.nonces.Issue("tpm2", k.JKT, f.clock.Now())
				return evidence(good.answers(nonce, make([]byte, 32)), k)
			},
		},
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			a := f.open(t, func(c *tpm.Config) { c.Roots = []string{filepath.Join(t.TempDir(), "none.pem")} })
			return a, f.walk(t, good, attesttest.NewKey(t))
		},
		Lures: func(t *testing.T, url string) []attest.Evidence {
			b := newBox(f.maker)
			b.chain = f.maker.certify(b.ek.Public(), func(c *x509.Certificate) {
				c.IssuingCertificateURL, c.OCSPServer, c.CRLDistributionPoints = []string{url}, []string{url}, []string{url}
			})
			whole := f.know(b, attesttest.NewKey(t))
			b.chain = b.chain[:1] // its issuer is only to be had at url
			lone := f.know(b, attesttest.NewKey(t))
			return []attest.Evidence{whole, lone}
		},
	})
}

// TestKinds: every pair of key types of real TPMs passes both steps.
func TestKinds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mixed := rsaBox(f.maker, tpm2.TPMAlgRSASSA)
	fresh := newBox(f.maker)
	mixed.ak, mixed.akPublic = fresh.ak, fresh.akPublic
	for name, b := range map[string]*box{"ECC": fresh, "RSASSA": rsaBox(f.maker, tpm2.TPMAlgRSASSA), "RSAPSS": rsaBox(f.maker, tpm2.TPMAlgRSAPSS), "RSA EK, ECC AK": mixed} {
		key := attesttest.NewKey(t)
		var steps []string
		e := f.walk(t, b, key)
		id, err := f.Attest(attest.WithTrace(t.Context(), func(s attest.Step) { steps = append(steps, s.Check+": "+s.Found) }), e)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, ak := b.publics()
		if id.Class != attest.ClassHardware || id.Key != key.JKT || id.Subject != id.Selectors["ek"] || len(id.Subject) != 64 ||
			id.Selectors["ak"] != hex.EncodeToString(nameOf(ak)) || id.Selectors["reset_count"] != "3" || id.Selectors["restart_count"] != "1" ||
			id.Selectors["ak_hierarchy"] != "endorsement" || id.Selectors["pcr7"] != strings.Repeat("a7", 32) || id.Selectors["pcr0"] != strings.Repeat("a0", 32) ||
			!id.NotAfter.Equal(f.clock.Now().Add(time.Hour)) || id.ReplayUntil.Before(id.NotAfter) {
			t.Errorf("%s: got %+v", name, id)
		}
		if len(steps) != 6 || !strings.Contains(strings.Join(steps, "\n"), "EK certificate: id:EBB1 id:EBB2") {
			t.Errorf("%s: steps %q", name, steps)
		}
		for _, s := range steps {
			if strings.Contains(s, hex.EncodeToString(f.nonces.Secret(id.ReplayID))) {
				t.Errorf("%s: a step tells the secret", name)
			}
		}
	}
}

// TestIdentity: an identity expires no later than the EK's certificate. After a reboot the
// same TPM no longer matches the registered selectors.
func TestIdentity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newBox(f.maker)
	end := f.clock.Now().Add(10 * time.Minute)
	b.chain = f.maker.certify(b.ek.Public(), func(c *x509.Certificate) { c.NotAfter = end })
	key := attesttest.NewKey(t)
	before, err := f.Attest(t.Context(), f.walk(t, b, key))
	if err != nil || !before.NotAfter.Equal(end) {
		t.Fatalf("got %+v, %v", before, err)
	}
	b.resets++
	after, err := f.Attest(t.Context(), f.walk(t, b, key))
	if err != nil || after.Subject != before.Subject {
		t.Fatalf("got %+v, %v", after, err)
	}
	registered := map[string]string{"ek": before.Selectors["ek"], "reset_count": before.Selectors["reset_count"]}
	if err := attest.SelectorMatch(registered, before); err != nil {
		t.Error(err)
	}
	if err := attest.SelectorMatch(registered, after); attesttest.Reason(err) != attest.ReasonSelectors {
		t.Errorf("after a reboot: %v", err)
	}
	// Another TPM of the same maker is another subject.
	twin, err := f.Attest(t.Context(), f.walk(t, newBox(f.maker), key))
	if err != nil || twin.Subject == before.Subject || attest.SelectorMatch(registered, twin) == nil {
		t.Errorf("got %+v, %v", twin, err)
	}
}

// TestPathsEnd: an identity expires no later than its intermediate CA. If two chains verify,
// the one that expires later counts, in any order.
func TestPathsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newBox(f.maker)
	now := f.clock.Now()
	ca := func(end time.Duration) []byte {
		c := *f.maker.ca
		c.NotAfter = now.Add(end)
		return must(x509.CreateCertificate(rand.Reader, &c, f.maker.root, &f.maker.caPK.PublicKey, f.maker.rootKey))
	}
	for _, tc := range []struct{ shown, configured, want time.Duration }{
		{10 * time.Minute, 0, 10 * time.Minute}, {10 * time.Minute, 20 * time.Minute, 20 * time.Minute}, {20 * time.Minute, 10 * time.Minute, 20 * time.Minute},
		{-time.Minute, 20 * time.Minute, 20 * time.Minute},
	} {
		a := f.Attestor
		if tc.configured != 0 {
			file := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(file, pemOf(ca(tc.configured)), 0o600); err != nil {
				t.Fatal(err)
			}
			a = f.open(t, func(c *tpm.Config) { c.Intermediates = []string{file} })
		}
		b.chain[1] = ca(tc.shown)
		id, err := a.Attest(t.Context(), f.know(b, attesttest.NewKey(t)))
		if err != nil || !id.NotAfter.Equal(now.Add(tc.want).Truncate(time.Second)) {
			t.Errorf("%+v: got %v, %v", tc, id.NotAfter.Sub(now), err)
		}
	}
}

// TestOneTPMOneSubject: another encoding of the same EK does not change the subject.
func TestOneTPMOneSubject(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newBox(f.maker)
	first, err := f.Attest(t.Context(), f.know(b, attesttest.NewKey(t)))
	if err != nil {
		t.Fatal(err)
	}
	b.ekPublic.AuthPolicy = tpm2.TPM2BDigest{Buffer: bytes.Repeat([]byte{1}, 32)}
	second, err := f.Attest(t.Context(), f.know(b, attesttest.NewKey(t)))
	if err != nil || first.Subject != second.Subject {
		t.Errorf("got %s and %s, %v", first.Subject, second.Subject, err)
	}
}

// TestRoots: if the files of the roots become invalid or disappear, the last good ones remain
// in use. Before the first good ones, the error is not a rejection.
func TestRoots(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	good, err := os.ReadFile(f.maker.file)
	if err != nil {
		t.Fatal(err)
	}
	leaf := f.maker.certify(ecKey().Public(), nil)[0]
	for name, content := range map[string][]byte{"empty": {}, "garbage": []byte("x"), "a key too": append(bytes.Clone(good), key...),
		"cut": good[:len(good)-20], "a broken one after it": append(bytes.Clone(good), good[:100]...), "a leaf": pemOf(leaf),
		"another label": bytes.ReplaceAll(good, []byte("CERTIFICATE"), []byte("X509 THING"))} {
		file := filepath.Join(t.TempDir(), "roots.pem")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		a := f.open(t, func(c *tpm.Config) { c.Roots = []string{file} })
		b := newBox(f.maker)
		if _, err := a.Challenge(t.Context(), evidence(must(json.Marshal(b.request())), attesttest.NewKey(t))); err == nil || attesttest.Reason(err) != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Intermediates may come from a file instead.
	between := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(between, pemOf(f.maker.ca.Raw), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBox(f.maker)
	b.chain = b.chain[:1]
	if _, err := f.Attest(t.Context(), f.know(b, attesttest.NewKey(t))); attesttest.Reason(err) != attest.ReasonIssuer {
		t.Errorf("without the CA between: %v", err)
	}
	if _, err := f.open(t, func(c *tpm.Config) { c.Intermediates = []string{between} }).Attest(t.Context(), f.know(b, attesttest.NewKey(t))); err != nil {
		t.Error(err)
	}
}

// TestHierarchy: the Qualified Name determines the AK's hierarchy, where that is possible.
func TestHierarchy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	qualified := func(parent, name []byte) []byte {
		sum := sha256.Sum256(append(bytes.Clone(parent), name...))
		return append([]byte{0, 0x0b}, sum[:]...)
	}
	b := newBox(f.maker)
	ek, ak := b.publics()
	for want, signer := range map[string][]byte{
		"owner":       qualified([]byte{0x40, 0, 0, 1}, nameOf(ak)),
		"null":        qualified([]byte{0x40, 0, 0, 7}, nameOf(ak)),
		"endorsement": qualified([]byte{0x40, 0, 0, 0x0b}, nameOf(ak)),
		"platform":    qualified([]byte{0x40, 0, 0, 0x0c}, nameOf(ak)),
		"ek":          qualified(qualified([]byte{0x40, 0, 0, 0x0b}, nameOf(ek)), nameOf(ak)),
		"other":       qualified(qualified([]byte{0x40, 0, 0, 1}, nameOf(ek)), nameOf(ak)),
	} {
		b.quoteOf = func(p *parts) { p.signer = signer }
		id, err := f.Attest(t.Context(), f.know(b, attesttest.NewKey(t)))
		if err != nil || id.Selectors["ak_hierarchy"] != want {
			t.Errorf("got %v, %v, want %s", id.Selectors["ak_hierarchy"], err, want)
		}
	}
}
