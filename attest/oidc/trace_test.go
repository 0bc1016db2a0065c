package oidc_test

import (
	"strings"
	"testing"

	"ebb/attest"
)

// TestTrace: what passed is told in order, up to what did not.
func TestTrace(t *testing.T) {
	t.Parallel()
	v := newVendor(t, readGolden(t, "gitlab"))
	a := v.open(nil)
	for _, tc := range []struct {
		change     object
		want, gone string
	}{
		{nil, "subject=project_path:my-group/my-project:ref_type:branch:ref:feature-branch-1 present job_id=302 " +
			"present pipeline_id=574 present project_id=20 required namespace_id=72 required ref_protected=true selector environment=test-environment2", "\x00"},
		{object{"ref_protected": "false"}, "required namespace_id=72", "required ref_protected"},
		{object{"aud": "https://other.example"}, "issuer=https://gitlab.com", "subject"},
	} {
		var steps []string
		ctx := attest.WithTrace(t.Context(), func(s attest.Step) { steps = append(steps, s.Check+"="+s.Found) })
		_, err := a.Attest(ctx, v.evidence(tc.change))
		got := strings.Join(steps, " ")
		if (err == nil) != (tc.change == nil) || !strings.Contains(got, tc.want) || strings.Contains(got, tc.gone) {
			t.Errorf("%v: got %s, %v", tc.change, got, err)
		}
	}
}
