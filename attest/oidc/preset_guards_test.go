package oidc_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/attesttest"
)

// A token without one of the claims that a preset requires is rejected: it is not a
// token of the kind that the page describes.
func TestPresetPresent(t *testing.T) {
	t.Parallel()
	const circle = "oidc.circleci.com/"
	for name, claims := range map[string][]string{
		"github-actions": {"repository_id", "run_id", "ref", "repository_owner_id", "event_name"},
		"github-ghe":     {"repository_id", "run_id", "ref", "repository_owner_id", "event_name"},
		"github-server":  {"repository_id", "run_id", "ref", "repository_owner_id", "event_name"},
		"gitlab":         {"project_id", "pipeline_id", "job_id", "namespace_id", "ref_protected"},
		"buildkite":      {"pipeline_id", "job_id", "build_branch", "organization_id"},
		"circleci":       {circle + "project-id", circle + "job-id", circle + "vcs-origin", circle + "ssh-rerun"},
		"fly":            {"app_id", "machine_id", "org_id"},
		"modal":          {"container_id", "app_id", "environment_id", "workspace_id"},
		"vercel":         {"project_id", "owner_id", "environment"},
		"google-compute": {"google|compute_engine|instance_id", "google|compute_engine|zone", "google|compute_engine|project_number"},
		"google-gke":     {"kubernetes.io|pod|uid", "kubernetes.io|serviceaccount|uid", "kubernetes.io|namespace"},
		"azure-v1":       {"xms_mirid", "tid", "ver", "oid"},
		"azure-v2":       {"xms_mirid", "tid", "ver", "oid"},
	} {
		v := newVendor(t, readGolden(t, name))
		a := v.open(nil)
		for _, claim := range claims {
			for what, value := range map[string]any{"no ": nil, "an empty ": "", "a list for ": []string{"x"}} {
				rejected(t, name+": "+what+claim, a, v.evidence(object{claim: value}))
			}
		}
	}
}

// No preset accepts the audience of another common service. That service receives the
// tokens and could present them here.
func TestForeignAudiences(t *testing.T) {
	t.Parallel()
	for name, audiences := range map[string][]string{
		"github-actions": {"https://github.com/octo-org", "http://github.com/octo-org", "sts.amazonaws.com", "sts.googleapis.com", "https://sts.googleapis.com",
			"//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x", "https://iam.googleapis.com/projects/1", "api://AzureADTokenExchange",
			"sigstore", "https://kubernetes.default.svc", "pypi", "vault"},
		"github-ghe":    {"https://octocorp.ghe.com/octo-org", "https://octocorp.ghe.com"},
		"github-server": {"https://git.corp.example/octo-org", "https://git.corp.example"},
		"gitlab":        {"https://gitlab.com", "https://gitlab.com/group"},
		"buildkite":     {"https://buildkite.com/acme-inc"},
		"circleci":      {"8268f1d5-9e76-4077-bf49-2c2007b7d71f"},
		"fly":           {"https://fly.io/example-org", "https://fly.io"},
		"vercel":        {"https://vercel.com/acme", "https://vercel.com"},
		"azure-v1": {"https://management.azure.com", "https://management.azure.com/", "https://management.core.windows.net/", "https://graph.microsoft.com",
			"https://vault.azure.net", "https://storage.azure.com/", "https://database.windows.net/", "00000003-0000-0000-c000-000000000000", "00000002-0000-0000-c000-000000000000"},
	} {
		v := newVendor(t, readGolden(t, name))
		for _, audience := range audiences {
			if _, err := v.config(object{"audience": audience}); err == nil || !strings.Contains(err.Error(), "meant for another service") {
				t.Errorf("%s: %s: %v", name, audience, err)
			}
		}
		if _, err := v.config(object{"audience": "https://ebb.example/sigstore"}); err != nil {
			t.Errorf("%s: an audience of ours: %v", name, err)
		}
	}
}

// A claim that is mapped to a selector must be plain text, which a runner can register
// and a person can read.
func TestSelectorTexts(t *testing.T) {
	t.Parallel()
	v := newVendor(t, readGolden(t, "github-actions"))
	a := v.open(nil)
	for what, value := range map[string]any{"too long": strings.Repeat("x", 2049), "a line end": "a\nb", "a direction": "a\u202eb", "an object": object{"x": 1}, "null in a list": []any{nil}} {
		rejected(t, what, a, v.evidence(object{"workflow_ref": value}))
	}
	if id, err := a.Attest(t.Context(), v.evidence(object{"workflow_ref": strings.Repeat("x", 2048)})); err != nil || len(id.Selectors["workflow_ref"]) != 2048 {
		t.Errorf("the longest: %v", err)
	}
	for text, ok := range map[string]bool{"74": true, "-74": true, "12345678901234567890": true, "123456789012345678901": false, "-0": false, "7e1": false, "7E1": false, "74.0": false} {
		e := v.evidence(object{"workflow_ref": json.Number(text)})
		if id, err := a.Attest(t.Context(), e); (err == nil) != ok || ok && id.Selectors["workflow_ref"] != text {
			t.Errorf("the number %s: got %q, %v", text, id.Selectors["workflow_ref"], err)
		}
	}
}

// A token whose subject claim is absent, empty or not plain text is rejected.
func TestSubjectClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.config()
	c.Subject = "name"
	a := f.new(t, c)
	for what, value := range map[string]any{"none": nil, "empty": "", "a list": []string{"x"}, "null": json.RawMessage("null")} {
		rejected(t, what, a, evidence(t, f.token(attesttest.Claims{"name": value})))
	}
	if id, err := a.Attest(t.Context(), evidence(t, f.token(attesttest.Claims{"name": "x"}))); err != nil || id.Subject != "x" {
		t.Errorf("got %+v, %v", id, err)
	}
}
