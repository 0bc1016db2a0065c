package oidc_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/oidc"
)

// TestPresetPinned checks for every preset that pinned members cannot be set, and that
// one error lists all of them.
func TestPresetPinned(t *testing.T) {
	t.Parallel()
	for name, g := range goldens(t) {
		v := newVendor(t, g)
		_, err := v.config(object{"issuer": v.Claims["iss"], "jwks_url": "https://evil.example/keys", "jwks_file": "/keys", "jwks": object{"keys": []object{}},
			"types": []string{"at+jwt"}, "subject": "actor"})
		for _, key := range []string{"issuer", "jwks_url", "jwks_file", "jwks", "types", "subject"} {
			if err == nil || !strings.Contains(err.Error(), key+" is pinned by the preset") {
				t.Errorf("%s: %s: got %v", name, key, err)
			}
		}
	}
}

// TestPresetNarrows checks that configuration cannot widen a preset.
func TestPresetNarrows(t *testing.T) {
	t.Parallel()
	const uuid = "00000000-0000-4000-8000-000000000000"
	for _, tc := range []struct {
		preset string
		change object
		want   string
	}{
		{"github-actions", object{"preset": "github"}, `there is no preset "github"; the presets are azure-v1, azure-v2, buildkite,`},
		{"github-actions", object{"preset": "GitHub-Actions"}, "there is no preset"},
		{"github-server", object{"parameters": object{"host": "user:hunter2@a.example"}}, "parameters: host: the value, not shown"},
		{"github-actions", object{"audience": nil}, "audience is empty"},
		{"github-actions", object{"audience": "https://github.com/octo-org"}, "tokens for https://github.com/ are meant for another service"},
		{"github-actions", object{"audience": "sts.amazonaws.com"}, "tokens for sts.amazonaws.com are meant for another service"},
		{"github-actions", object{"required": nil}, "list the accepted values of repository_owner_id"},
		{"github-actions", object{"required": object{"repository_owner_id": "octo-org"}}, `"octo-org" does not have the form of this claim`},
		{"github-actions", object{"required": object{"repository_owner_id": []string{"65", "*"}}}, `"*" does not have the form of this claim`},
		{"github-actions", object{"required": object{"repository_owner_id": []string{}}}, "list the accepted values of repository_owner_id"},
		{"github-actions", object{"required": object{"repository_owner_id": "65", "event_name": []string{"push", "pull_request_target"}}}, `the preset does not accept "pull_request_target"`},
		{"github-actions", object{"algs": []string{"RS256", "ES256"}}, `the platform does not sign with "ES256"`},
		{"github-actions", object{"max_lifetime": "16m"}, "max_lifetime is 16m0s, more than the 15m0s"},
		{"github-actions", object{"max_lifetime": "0s"}, "max_lifetime: this is not"},
		{"github-actions", object{"leeway": "31s"}, "leeway is 31s, more than the 30s"},
		{"github-actions", object{"selectors": object{"repository_id": "repository"}}, "selectors repository_id: the preset already defines it"},
		{"github-actions", object{"allow_private_addresses": true}, "on the public internet"},
		{"github-actions", object{"accept_bearer": true}, "accept_bearer is for presets of bearer tokens"},
		{"github-actions", object{"allow": []string{"everything"}}, `allow: there is no "everything"; the preset has issue_comment, merge_group, pull_request, pull_request_target, workflow_run`},
		{"github-actions", object{"parameters": object{"enterprise": "a/../b"}}, "parameters: enterprise: "},
		{"github-actions", object{"parameters": object{"enterprise": ""}}, "parameters: enterprise: "},
		{"github-actions", object{"parameters": object{"org": "x"}}, `parameters: there is no "org"`},
		{"github-ghe", object{"parameters": object{"subdomain": "evil.example/x"}}, "parameters: subdomain: "},
		{"github-ghe", object{"parameters": nil}, "parameters: subdomain is missing"},
		{"github-server", object{"parameters": object{"host": "a.example/x"}}, "parameters: host: "},
		{"github-server", object{"parameters": object{"host": "user@a.example"}}, "parameters: host: "},
		{"github-server", object{"audience": "https://git.corp.example/acme"}, "are meant for another service"},
		{"gitlab", object{"parameters": object{"url": "http://gitlab.example.com"}}, "parameters: url: "},
		{"gitlab", object{"parameters": object{"url": "https://gitlab.example.com/"}}, "parameters: url: "},
		{"gitlab", object{"parameters": object{"url": "https://gitlab.example.com?x"}}, "parameters: url: "},
		{"gitlab", object{"parameters": object{"url": "https://gitlab..example.com"}}, "parameters: url: "},
		{"gitlab", object{"audience": "https://gitlab.com"}, "are meant for another service"},
		{"gitlab", object{"required": object{"namespace_id": "my-group"}}, "does not have the form of this claim"},
		{"gitlab", object{"required": object{"namespace_id": "72", "ref_protected": []string{"true", "false"}}}, "exception allow: [unprotected_refs]"},
		{"circleci", object{"parameters": object{"org": "acme"}}, "parameters: org: "},
		{"circleci", object{"audience": "8268f1d5-9e76-4077-bf49-2c2007b7d71f"}, "are meant for another service"},
		{"buildkite", object{"required": object{"organization_id": "acme-inc"}}, "does not have the form of this claim"},
		{"fly", object{"audience": "https://fly.io/example-org"}, "are meant for another service"},
		{"e2b", object{"parameters": object{"project": "prj/x", "keys": "k"}}, "parameters: project: "},
		{"e2b", object{"parameters": object{"project": "prj", "keys": "../k"}}, "parameters: keys: "},
		{"e2b", object{"parameters": object{"project": "prj", "keys": "/evil.example/k"}}, "parameters: keys: "},
		{"e2b", object{"selectors": object{"sandbox_id": "jti"}}, "selectors sandbox_id: the preset already defines it"},
		{"modal", object{"accept_bearer": nil}, "set accept_bearer: true"},
		{"modal", object{"audience": "https://ebb.example"}, "always have the audience oidc.modal.com"},
		{"modal", object{"max_lifetime": "72h"}, "more than the 49h0m0s"},
		{"modal", object{"required": object{"workspace_id": "acme"}}, "does not have the form of this claim"},
		{"vercel", object{"required": object{"owner_id": "acme"}}, "does not have the form of this claim"},
		{"vercel", object{"required": object{"owner_id": "team_7Gw5ZMzpQA8h90F832KGp7nwbuh3", "environment": "preview"}}, "exception allow: [any_environment]"},
		{"google-compute", object{"required": object{"google.compute_engine.project_number": "my-project"}}, "does not have the form of this claim"},
		{"google-cloud-run", object{"required": object{"email": "tool@my-project.iam.gserviceaccount.com"}}, "list the accepted values of sub"},
		{"google-gke", object{"parameters": object{"project": "p", "location": "l", "cluster": "c/x"}}, "parameters: cluster: "},
		{"google-gke", object{"audience": "https://container.googleapis.com/v1/projects/my-project/locations/europe-west1/clusters/agents"}, "are meant for another service"},
		{"azure-v1", object{"parameters": object{"tenant": "common"}}, "parameters: tenant: "},
		{"azure-v1", object{"audience": "https://management.azure.com/"}, "are meant for another service"},
		{"azure-v1", object{"required": object{"oid": uuid, "tid": uuid}}, "the preset does not accept"},
	} {
		if _, err := newVendor(t, readGolden(t, tc.preset)).config(tc.change); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s %v: got %v, want %q and no password", tc.preset, tc.change, err, tc.want)
		}
	}
	_, err := newVendor(t, readGolden(t, "github-actions")).config(object{"audience": nil, "required": nil, "issuer": "x", "leeway": "1h"})
	if err == nil || strings.Count(err.Error(), "\n") < 3 {
		t.Errorf("got %v, want all problems at once", err)
	}
}

// TestPresetNarrower checks the members that configuration may set beside a preset.
func TestPresetNarrower(t *testing.T) {
	t.Parallel()
	v := newVendor(t, readGolden(t, "github-actions"))
	c, err := v.config(object{
		"required":     object{"repository_owner_id": []string{"65", "66"}, "event_name": "workflow_dispatch", "environment": "prod"},
		"selectors":    object{"actor": "actor"},
		"max_lifetime": "10m", "leeway": "0s", "algs": []string{"RS256"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.MaxLifetime != 10*time.Minute || *c.Leeway != 0 || c.Class != attest.ClassSigned || !slices.Equal(c.Algs, []jose.Alg{jose.RS256}) || len(c.OtherAudiences) > 0 {
		t.Errorf("got %+v", c)
	}
	a, err := oidc.New(c)
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Attest(t.Context(), v.evidence(nil))
	if err != nil || id.Selectors["actor"] != "octocat" || id.Selectors["repository_id"] != "74" {
		t.Errorf("got %+v, %v", id, err)
	}
	rejected(t, "an event that is no longer accepted", a, v.evidence(object{"event_name": "push"}))
	rejected(t, "no environment", a, v.evidence(object{"environment": nil}))

	c, err = v.config(object{"parameters": object{"enterprise": "octocat-inc"}})
	if err != nil || c.Issuer != "https://token.actions.githubusercontent.com/octocat-inc" || c.JWKSURL != c.Issuer+"/.well-known/jwks" {
		t.Errorf("got %s %s %v", c.Issuer, c.JWKSURL, err)
	}
	lab := newVendor(t, readGolden(t, "gitlab"))
	c, err = lab.config(object{"parameters": object{"url": "https://git.corp.example:8443/gitlab"}, "allow_private_addresses": true})
	if err != nil || c.Issuer != "https://git.corp.example:8443/gitlab" || c.JWKSURL != c.Issuer+"/oauth/discovery/keys" {
		t.Errorf("got %s %s %v", c.Issuer, c.JWKSURL, err)
	}
	if c, err = lab.config(object{"audience": "https://gitlab.company.example"}); err != nil {
		t.Errorf("an audience that only starts like the platform's: %v", err)
	}
	if *c.Leeway != 30*time.Second || c.MaxLifetime != time.Hour {
		t.Errorf("got %+v", c)
	}
}

// TestWithoutPreset checks that the members for presets are refused without a preset.
func TestWithoutPreset(t *testing.T) {
	t.Parallel()
	for _, more := range []object{{"allow": []string{"pull_request"}}, {"accept_bearer": true}, {"parameters": object{"org": "x"}}} {
		raw, err := json.Marshal(changed(object{"issuer": "https://i.example", "audience": "https://ebb.example", "jwks_url": "https://i.example/k"}, more))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := oidc.Decode(raw); err == nil || !strings.Contains(err.Error(), "are for presets") {
			t.Errorf("%v: got %v", more, err)
		}
	}
}

// FuzzDecode checks that no configuration beside a preset changes its issuer or the
// address of its keys.
func FuzzDecode(f *testing.F) {
	for _, g := range goldens(f) {
		raw, err := json.Marshal(g.Config)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	hosts := []string{"https://token.actions.githubusercontent.com/", "https://agent.buildkite.com/", "https://oidc.circleci.com/org/", "https://oidc.fly.io/",
		"https://id.e2b.dev/", "https://oidc.modal.com/", "https://oidc.vercel.com/", "https://www.googleapis.com/oauth2/v3/certs",
		"https://container.googleapis.com/v1/projects/", "https://login.microsoftonline.com/"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := oidc.Decode(raw)
		var file struct{ Preset string }
		if err != nil || json.Unmarshal(raw, &file) != nil || file.Preset == "" {
			return
		}
		own := strings.HasPrefix(c.JWKSURL, "https://token.actions.") && strings.HasSuffix(c.JWKSURL, ".ghe.com/.well-known/jwks") ||
			file.Preset == "gitlab" || file.Preset == "github-server"
		if !own && !slices.ContainsFunc(hosts, func(h string) bool { return strings.HasPrefix(c.JWKSURL, h) }) {
			t.Errorf("%s: %s", raw, c.JWKSURL)
		}
		if len(c.Required)+len(c.Present) == 0 && file.Preset != "e2b" || len(c.OtherAudiences) > 0 || *c.Leeway > time.Minute || c.Audience == "" {
			t.Errorf("%s: got %+v", raw, c)
		}
	})
}
