package tpm_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/tpm"
	"github.com/ebb-broker/ebb/web/api/walktest"
)

// walks runs the evidence of TPMs below a root through a whole ebb.
func walks(t *testing.T, root, pcr7 string, start func(t testing.TB) walktest.Sandbox) {
	t.Helper()
	walktest.Run(t, walktest.Kind{Name: "tpm", Start: start, Open: func(t testing.TB, nonces *attest.Nonces, now func() time.Time) attest.Attestor {
		a, err := tpm.New(tpm.Config{Name: "tpm", Roots: []string{root}, PCRs: map[string][]string{"7": {pcr7}}, Nonces: nonces, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}})
}

// ekOf is the selector that a runner makes of a TPM's EK certificate.
func ekOf(cert []byte) map[string]string {
	sum := sha256.Sum256(must(x509.ParseCertificate(cert)).RawSubjectPublicKeyInfo)
	return map[string]string{"ek": hex.EncodeToString(sum[:])}
}

func TestWalk(t *testing.T) {
	t.Parallel()
	m := newMaker(t, time.Now())
	walks(t, m.file, strings.Repeat("a7", 32), func(testing.TB) walktest.Sandbox {
		b := newBox(m)
		_, ak := b.publics()
		return walktest.Sandbox{Selectors: ekOf(b.chain[0]), Show: string(must(json.Marshal(b.request()))),
			Answer: func(t testing.TB, _ string, c attest.Challenge) string {
				credential, secret := parseCredential(t, c)
				return string(b.answers(c.Nonce, b.activate(credential, secret, nameOf(ak))))
			}}
	})
}

// TestRealSWTPMWalk: the same with real TPMs, of machines that measure their boot.
func TestRealSWTPMWalk(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	names := "ab"
	started := sha256.Sum256([]byte("something was started"))
	pcr7 := sha256.Sum256(append(make([]byte, sha256.Size), started[:]...))
	walks(t, f.root(), hex.EncodeToString(pcr7[:]), func(testing.TB) walktest.Sandbox {
		at := rsaEKAt()
		d := f.manufacture(t, names[:1])
		names = names[1:]
		d.extend(7, started[:])
		s := d.sandbox(t, at, tpm2.TPMRHEndorsement, ecAKTemplate())
		return walktest.Sandbox{Selectors: ekOf(s.d.certificate(t, at.nv)), Show: string(s.request()), Answer: func(_ testing.TB, _ string, c attest.Challenge) string {
			return string(s.answer(c.Nonce, must(s.activate(t, c)), tpm2.TPMAlgSHA256, 7))
		}}
	})
}
