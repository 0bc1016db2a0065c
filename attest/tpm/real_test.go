package tpm_test

import (
	"crypto/sha256"
	"encoding/pem"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-tpm/tpm2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/tpm"
)

func certificates(t *testing.T, file string) (out []string) {
	t.Helper()
	rest := must(os.ReadFile(file))
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out
		}
		out = append(out, text64(block.Bytes))
	}
}

var zeros = strings.Repeat("00", 32) // of a PCR that nothing has measured into

func (f *factory) attestor(t *testing.T) *tpm.Attestor {
	t.Helper()
	a, err := tpm.New(tpm.Config{Name: "tpm", Roots: []string{f.root()}, PCRs: map[string][]string{"7": {zeros}}, RegisteredPCRs: true, Nonces: newNonces(3)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// walk takes a sandbox beside a real TPM through both steps.
func (s *sandbox) walk(t *testing.T, a *tpm.Attestor, key attest.Key, indexes ...uint) (attest.Identity, error) {
	t.Helper()
	c, err := a.Challenge(t.Context(), evidence(s.request(), key))
	if err != nil {
		return attest.Identity{}, err
	}
	secret, err := s.activate(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return a.Attest(t.Context(), evidence(s.answer(c.Nonce, secret, tpm2.TPMAlgSHA256, indexes...), key))
}

// TestRealSWTPM: a real TPM, with each of its EKs and each kind of AK.
func TestRealSWTPM(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	d := f.manufacture(t, "a")
	a := f.attestor(t)
	key := attesttest.NewKey(t)
	clock := must(tpm2.ReadClock{}.Execute(d)).CurrentTime.ClockInfo
	for _, tc := range []struct {
		name     string
		at       ekAt
		parent   tpm2.TPMHandle
		template tpm2.TPMTPublic
		where    string
	}{
		{"RSA EK, ECDSA AK", rsaEKAt(), tpm2.TPMRHEndorsement, ecAKTemplate(), "endorsement"},
		{"P-384 EK, ECDSA AK", eccEKAt(), tpm2.TPMRHEndorsement, ecAKTemplate(), "endorsement"},
		{"RSA EK, RSASSA AK", rsaEKAt(), tpm2.TPMRHEndorsement, rsaAKTemplate(tpm2.TPMAlgRSASSA), "endorsement"},
		{"P-384 EK, RSAPSS AK", eccEKAt(), tpm2.TPMRHOwner, rsaAKTemplate(tpm2.TPMAlgRSAPSS), "owner"},
		{"owner's AK", rsaEKAt(), tpm2.TPMRHOwner, ecAKTemplate(), "owner"},
		{"AK until the next start", rsaEKAt(), tpm2.TPMRHNull, ecAKTemplate(), "null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id, err := d.sandbox(t, tc.at, tc.parent, tc.template).walk(t, a, key, 0, 7)
			if err != nil {
				t.Fatal(err)
			}
			if id.Selectors["ak_hierarchy"] != tc.where || id.Selectors["pcr0"] != zeros || id.Selectors["pcr7"] != zeros || id.Class != attest.ClassHardware || id.Key != key.JKT {
				t.Errorf("got %+v", id)
			}
			// Only keys of the endorsement hierarchy report the real counters. For keys of
			// other hierarchies the TPM adds a secret offset (TPM 2.0 Part 1, 36.7).
			same := id.Selectors["reset_count"] == strconv.FormatUint(uint64(clock.ResetCount), 10)
			if same != (tc.where == "endorsement") {
				t.Errorf("reset_count %s, the clock says %d", id.Selectors["reset_count"], clock.ResetCount)
			}
		})
	}
}

// TestRealSWTPMRefused: the attestor rejects unacceptable keys and quotes of a real TPM.
func TestRealSWTPMRefused(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	d, other := f.manufacture(t, "a"), f.manufacture(t, "b")
	a := f.attestor(t)
	key := attesttest.NewKey(t)
	s := d.sandbox(t, rsaEKAt(), tpm2.TPMRHEndorsement, ecAKTemplate())
	// An AK that signs anything.
	free := ecAKTemplate()
	free.ObjectAttributes.Restricted = false
	if _, err := d.sandbox(t, rsaEKAt(), tpm2.TPMRHEndorsement, free).walk(t, a, key, 7); attesttest.Reason(err) != attest.ReasonClaims {
		t.Errorf("an unrestricted AK: %v", err)
	}
	// A credential for an AK of this TPM is not opened by another TPM of the maker.
	c, err := a.Challenge(t.Context(), evidence(s.request(), key))
	if err != nil {
		t.Fatal(err)
	}
	thief := other.sandbox(t, rsaEKAt(), tpm2.TPMRHEndorsement, ecAKTemplate())
	if secret, err := thief.activate(t, c); err == nil {
		t.Errorf("another TPM made %x of the credential", secret)
	}
	// Nor here for another AK, as when a thief names this EK and its own AK.
	mixed := &sandbox{d: d, doc: map[string]any{"ek_cert": s.doc["ek_cert"], "ek_public": s.doc["ek_public"], "ak_public": thief.doc["ak_public"]}}
	if c, err = a.Challenge(t.Context(), evidence(mixed.request(), key)); err != nil {
		t.Fatal(err)
	}
	if secret, err := s.activate(t, c); err == nil {
		t.Errorf("made %x of the credential for another AK", secret)
	}
	// The whole of another TPM, with the secret of this one.
	if c, err = a.Challenge(t.Context(), evidence(s.request(), key)); err != nil {
		t.Fatal(err)
	}
	secret, err := s.activate(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Attest(t.Context(), evidence(thief.answer(c.Nonce, secret, tpm2.TPMAlgSHA256, 7), key)); attesttest.Reason(err) != attest.ReasonSignature {
		t.Errorf("another TPM's quote and this one's secret: %v", err)
	}
	for name, tc := range map[string]struct {
		doc []byte
		key attest.Key
		why attest.Reason
	}{
		"the bank of SHA-1":   {s.answer(c.Nonce, secret, tpm2.TPMAlgSHA1), key, attest.ReasonMalformed}, // not active: no values
		"another nonce":       {s.answer(strings.ToUpper(c.Nonce), secret, tpm2.TPMAlgSHA256, 7), key, attest.ReasonNonce},
		"another key":         {s.answer(c.Nonce, secret, tpm2.TPMAlgSHA256, 7), attesttest.NewKey(t), attest.ReasonNonce},
		"without the pinned":  {s.answer(c.Nonce, secret, tpm2.TPMAlgSHA256, 0), key, attest.ReasonMeasurement},
		"as it ought to be":   {s.answer(c.Nonce, secret, tpm2.TPMAlgSHA256, 0, 7), key, ""},
		"and again, the same": {s.answer(c.Nonce, secret, tpm2.TPMAlgSHA256, 7), key, ""},
	} {
		if _, err := a.Attest(t.Context(), evidence(tc.doc, tc.key)); attesttest.Reason(err) != tc.why {
			t.Errorf("%s: got %v, want %q", name, err, tc.why)
		}
	}
	sum := sha256.Sum256([]byte("something was started"))
	d.extend(7, sum[:])
	if _, err := s.walk(t, a, key, 7); attesttest.Reason(err) != attest.ReasonMeasurement {
		t.Errorf("after something was measured: %v", err)
	}
	// TPMs of another factory.
	if _, err := newFactory(t).manufacture(t, "a").sandbox(t, rsaEKAt(), tpm2.TPMRHEndorsement, ecAKTemplate()).walk(t, a, key, 7); attesttest.Reason(err) != attest.ReasonIssuer {
		t.Errorf("a TPM of another maker: %v", err)
	}
}

// TestRealSWTPMReboot: after a restart, a TPM has the same subject and AK, but does not match
// the registered counters.
func TestRealSWTPMReboot(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	d := f.manufacture(t, "a")
	a := f.attestor(t)
	key := attesttest.NewKey(t)
	before, err := d.sandbox(t, rsaEKAt(), tpm2.TPMRHEndorsement, ecAKTemplate()).walk(t, a, key, 7)
	if err != nil {
		t.Fatal(err)
	}
	d.off()
	d.on(t)
	after, err := d.sandbox(t, rsaEKAt(), tpm2.TPMRHEndorsement, ecAKTemplate()).walk(t, a, key, 7)
	if err != nil {
		t.Fatal(err)
	}
	differ := []string{}
	for name, v := range before.Selectors {
		if after.Selectors[name] != v {
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	if before.Subject != after.Subject || !slices.Equal(differ, []string{"reset_count"}) {
		t.Errorf("the reboot changed %v: %+v", differ, after)
	}
	if err := attest.SelectorMatch(map[string]string{"ek": before.Subject, "reset_count": before.Selectors["reset_count"]}, after); attesttest.Reason(err) != attest.ReasonSelectors {
		t.Errorf("after the reboot: %v", err)
	}
}
