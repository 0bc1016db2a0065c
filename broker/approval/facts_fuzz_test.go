package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/ebb-broker/ebb/broker"
)

// For any stored facts, a sheet is either refused or has, sealed again, the digest of the
// request: a page never shows facts that are not part of the decision.
func FuzzSheet(f *testing.F) {
	r := sealed(f, someFacts(f))
	f.Add([]byte(r.Facts), r.Digest)
	f.Add([]byte(`{}`), "")
	f.Add([]byte(`{"risk":{"level":"low","reasons":null},"as_asked":null}`), r.Digest)
	f.Add([]byte(`{"owner":"a","owner":"b"}`), r.Digest)
	f.Fuzz(func(t *testing.T, facts []byte, digest string) {
		for _, d := range []string{digest, named(facts)} {
			in := broker.Request{Facts: facts, Digest: d}
			sheet, err := in.Sheet()
			if err != nil {
				if sheet.Request != "" || broker.AsError(err).Kind != broker.Conflict {
					t.Fatalf("%+v, %v", sheet, err)
				}
				continue
			}
			if _, again, err := broker.Seal(sheet); err != nil || again != d {
				t.Fatalf("%s shows %s, %v", d, again, err)
			}
		}
	})
}

// named returns the digest that an attacker with write access to the facts would store with them.
func named(facts []byte) string {
	canonical, err := jcs.Transform(facts)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}
