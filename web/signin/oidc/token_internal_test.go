package oidc

import (
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
)

// TestAccessTokenHash: the RS256 value is the example of OpenID Connect Core
// appendix A.3. The others were computed with openssl dgst.
func TestAccessTokenHash(t *testing.T) {
	t.Parallel()
	const token = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y"
	for alg, want := range map[jose.Alg]string{
		jose.RS256: "77QmUPtjPfzWtF2AnpK9RQ",
		jose.ES256: "77QmUPtjPfzWtF2AnpK9RQ",
		jose.PS384: "jtAeDp945y1dDqU3nkIVGNZP1HjH_MFs",
		jose.ES512: "q7nS86GgvvFaZkzALLWqJYaJIKw2wCDAVfCAsm5CrBM",
		jose.EdDSA: "q7nS86GgvvFaZkzALLWqJYaJIKw2wCDAVfCAsm5CrBM",
	} {
		if got := accessTokenHash(alg, token); got != want {
			t.Errorf("%s: %s, want %s", alg, got, want)
		}
	}
}
