package nitro_test

import (
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/nitro"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*nitro.Config)
	}{
		{"enclave", func(*nitro.Config) {}},
		{"nitrotpm", func(c *nitro.Config) {
			c.Type, c.PCRs = nitro.NitroTPM, map[string][]string{"4": {hex.EncodeToString(register("4"))}, "12": {strings.Repeat("00", 48)}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, tt.change)
			bad := map[string]func(t *testing.T) attest.Evidence{}
			for name, b := range badDocuments(f) {
				bad[name] = func(t *testing.T) attest.Evidence { return f.evidence(t, b.spoil) }
			}
			for to, from := range map[string]string{"wrong audience": "a nonce for another attestor", "wrong issuer": "another root", "wrong key": "a nonce for another key",
				"expired": "a leaf that expired a second ago", "not yet valid": "a leaf that is valid in a second"} {
				bad[to] = bad[from]
			}
			attesttest.Run(t, attesttest.Suite{
				Attestor: f.a, Clock: f.clock, Bad: bad, Fresh: attest.NonceLife,
				NotApplicable: map[string]string{"down": "a document and the pinned root are all that it takes to judge"},
				Good:          func(t *testing.T) attest.Evidence { return f.evidence(t) },
				Lures:         func(t *testing.T, url string) []attest.Evidence { return lures(t, f, url) },
			})
		})
	}
}

// lures name url where verifiers of certificates follow it: lists of revoked
// certificates, OCSP, issuers.
func lures(t *testing.T, f *fixture, url string) []attest.Evidence {
	t.Helper()
	named := func(c *x509.Certificate) {
		c.CRLDistributionPoints, c.OCSPServer, c.IssuingCertificateURL = []string{url}, []string{url}, []string{url}
	}
	return []attest.Evidence{
		f.evidence(t, set("module_id", url)), f.evidence(t, set("public_key", []byte(url))), f.evidence(t, set("user_data", []byte(url))),
		f.evidence(t, func(d *document, _ attest.Key) {
			d.chain = slices.Clone(f.pki)
			d.chain[4] = d.chain[3].below(t, "leaf", f.clock.Now(), asLeaf(f.clock.Now()), named)
		}),
		f.evidence(t, func(d *document, _ attest.Key) {
			d.chain = slices.Clone(f.pki)
			d.chain[3] = d.chain[2].below(t, "instance", f.clock.Now(), pathLen(0), named)
			d.chain[4] = d.chain[3].below(t, "leaf", f.clock.Now(), asLeaf(f.clock.Now()))
		}),
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	start := f.clock.Now()
	e := f.evidence(t)
	f.clock.Advance(10 * time.Second)
	var steps []string
	ctx := attest.WithTrace(t.Context(), func(s attest.Step) { steps = append(steps, s.Check) })
	id, err := f.a.Attest(ctx, e)
	if err != nil {
		t.Fatal(err)
	}
	if id.Subject != enclaveID || id.Class != attest.ClassHardware || id.Key != e.Key.JKT || id.Attestor != "nitro" || id.TaskID != "" {
		t.Errorf("got %+v", id)
	}
	// By the time of the challenge, not of the answer.
	if !id.NotAfter.Equal(start.Add(15*time.Minute)) || !id.ReplayUntil.Equal(id.NotAfter) || len(id.ReplayID) != 75 {
		t.Errorf("got %v, %v, %q", id.NotAfter, id.ReplayUntil, id.ReplayID)
	}
	want := map[string]string{"module_id": enclaveID, "instance_id": instanceID}
	for name, text := range map[string]string{"pcr0": "0", "pcr1": "1", "pcr2": "2", "pcr4": "4", "pcr8": "8"} {
		want[name] = hex.EncodeToString(register(text))
	}
	if len(id.Selectors) != len(want) || attest.SelectorMatch(want, id) != nil {
		t.Errorf("got %v", id.Selectors)
	}
	if got := strings.Join(steps, ","); got != "form,nonce,key,timestamp,certificates,signature,measurements" {
		t.Errorf("steps %s", got)
	}
}

func TestInstance(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *nitro.Config) { c.Type, c.PCRs, c.RegisteredPCRs = nitro.NitroTPM, nil, true })
	id, err := f.a.Attest(t.Context(), f.evidence(t))
	if err != nil || id.Subject != tpmID || id.Selectors["instance_id"] != instanceID || id.Selectors["pcr4"] != hex.EncodeToString(register("4")) {
		t.Errorf("got %+v, %v", id, err)
	}
	// Registers that nothing was measured into are zeros, or from 17 on ones.
	if len(id.Selectors) != 7 || id.Selectors["pcr17"] != "" || id.Selectors["pcr12"] != "" {
		t.Errorf("got %v", id.Selectors)
	}
}

// TestAccepted: unusual but valid documents are accepted, so the refusals in the other tests
// have the intended cause.
func TestAccepted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := f.clock.Now()
	for name, spoil := range map[string]func(*document, attest.Key){
		"a map of definite length":   func(d *document, _ attest.Key) { d.payload = func(b []byte) []byte { return b } },
		"the clock 5 minutes behind": set("timestamp", now.Add(-5*time.Minute).UnixMilli()),
		"the clock 5 minutes ahead":  set("timestamp", now.Add(5*time.Minute).UnixMilli()),
		"a public key":               set("public_key", make([]byte, 1024)),
		"no public key at all":       set("public_key", absent{}),
		"a shorter path": func(d *document, _ attest.Key) {
			d.chain = pki{f.pki[0], f.pki[1], f.pki[1].below(t, "leaf", now, asLeaf(now))}
		},
		"registers of SHA-256": func(d *document, _ attest.Key) {
			d.members["pcrs"].(map[uint8][]byte)[31] = make([]byte, 32) //nolint:forcetypeassert // ours
		},
	} {
		if _, err := f.a.Attest(t.Context(), f.evidence(t, spoil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A form of module_id that is not known names no instance.
	id, err := f.a.Attest(t.Context(), f.evidence(t, set("module_id", "m-1")))
	if err != nil || id.Subject != "m-1" || id.Selectors["instance_id"] != "" {
		t.Errorf("got %+v, %v", id, err)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := f.clock.Now()
	soon := now.Add(2 * time.Minute)
	for name, at := range map[string]int{"leaf": 4, "instance": 3} {
		id, err := f.a.Attest(t.Context(), f.evidence(t, func(d *document, _ attest.Key) {
			d.chain = slices.Clone(f.pki)
			ends := func(i int) func(*x509.Certificate) {
				return func(c *x509.Certificate) {
					if i == at {
						c.NotAfter = soon
					}
				}
			}
			d.chain[3] = d.chain[2].below(t, "instance", now, pathLen(0), ends(3))
			d.chain[4] = d.chain[3].below(t, "leaf", now, asLeaf(now), ends(4))
		}))
		if err != nil || !id.NotAfter.Equal(soon) {
			t.Errorf("%s: got %v, %v, want %v", name, id.NotAfter, err, soon)
		}
	}
}

func TestBindNonce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *nitro.Config) { c.Bind = nitro.BindNonce })
	e := f.evidence(t, set("user_data", nil))
	id, err := f.a.Attest(t.Context(), e)
	if err != nil || id.Key != e.Key.JKT {
		t.Errorf("got %+v, %v", id, err)
	}
	e.Key = attesttest.NewKey(t)
	if _, err := f.a.Attest(t.Context(), e); attesttest.Reason(err) != attest.ReasonNonce {
		t.Errorf("with another key: %v", err)
	}
	if _, err := f.a.Attest(t.Context(), f.evidence(t, set("user_data", make([]byte, 1025)))); attesttest.Reason(err) != attest.ReasonMalformed {
		t.Errorf("more user_data than AWS signs: %v", err)
	}
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if c, err := f.a.Challenge(t.Context(), attest.Evidence{}); attesttest.Reason(err) != attest.ReasonKeyBinding {
		t.Errorf("without a key: %+v, %v", c, err)
	}
	c, err := f.a.Challenge(t.Context(), attest.Evidence{Key: attesttest.NewKey(t)})
	if err != nil || len(c.Nonce) != 75 || c.Document != nil || !c.ExpiresAt.Equal(f.clock.Now().Add(attest.NonceLife)) {
		t.Errorf("got %+v, %v", c, err)
	}
}
