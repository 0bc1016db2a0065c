package oidc_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
	"ebb/attest/oidc"
)

// TestPresetPinned: what a preset pins cannot be set, on any of them, and the
// error says so for all keys at once.
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

// TestPresetNarrows: configuration may narrow a preset and never widen it.
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
		{"github-actions", object{"audience": nil}, "audience is empty"},
		{"github-actions", object{"audience": "https://github.com/octo-org"}, "tokens for https://github.com/ are made for others"},
		{"github-actions", object{"audience": "sts.amazonaws.com"}, "tokens for sts.amazonaws.com are made for others"},
		{"github-actions", object{"required": nil}, "name the values of repository_owner_id"},
		{"github-actions", object{"required": object{"repository_owner_id": "octo-org"}}, `"octo-org" is not what such a claim looks like`},
		{"github-actions", object{"required": object{"repository_owner_id": []string{"65", "*"}}}, `"*" is not what such a claim looks like`},
		{"github-actions", object{"required": object{"repository_owner_id": []string{}}}, "name the values of repository_owner_id"},
		{"github-actions", object{"required": object{"repository_owner_id": "65", "event_name": []string{"push", "pull_request_target"}}}, `"pull_request_target" is not among what the preset accepts`},
		{"github-actions", object{"algs": []string{"RS256", "ES256"}}, `the platform does not sign with "ES256"`},
		{"github-actions", object{"max_lifetime": "16m"}, "max_lifetime is more than the 15m0s"},
		{"github-actions", object{"max_lifetime": "0s"}, "max_lifetime: this is not"},
		{"github-actions", object{"leeway": "31s"}, "leeway is more than the 30s"},
		{"github-actions", object{"selectors": object{"repository_id": "repository"}}, "selectors repository_id: the preset has set this one"},
		{"github-actions", object{"allow_private_addresses": true}, "on the public internet"},
		{"github-actions", object{"accept_bearer": true}, "accept_bearer is for presets of bearer tokens"},
		{"github-actions", object{"allow": []string{"everything"}}, `allow: there is no "everything"; there is issue_comment, merge_group, pull_request, pull_request_target, workflow_run`},
		{"github-actions", object{"parameters": object{"enterprise": "a/../b"}}, "parameters: enterprise is not of the form"},
		{"github-actions", object{"parameters": object{"enterprise": ""}}, "parameters: enterprise is not of the form"},
		{"github-actions", object{"parameters": object{"org": "x"}}, `parameters: there is no "org"`},
		{"github-ghe", object{"parameters": object{"subdomain": "evil.example/x"}}, "parameters: subdomain is not"},
		{"github-ghe", object{"parameters": nil}, "parameters: subdomain is missing"},
		{"github-server", object{"parameters": object{"host": "a.example/x"}}, "parameters: host is not"},
		{"github-server", object{"parameters": object{"host": "user@a.example"}}, "parameters: host is not"},
		{"github-server", object{"audience": "https://git.corp.example/acme"}, "are made for others"},
		{"gitlab", object{"parameters": object{"url": "http://gitlab.example.com"}}, "parameters: url is not"},
		{"gitlab", object{"parameters": object{"url": "https://gitlab.example.com/"}}, "parameters: url is not"},
		{"gitlab", object{"parameters": object{"url": "https://gitlab.example.com?x"}}, "parameters: url is not"},
		{"gitlab", object{"parameters": object{"url": "https://gitlab..example.com"}}, "parameters: url is not"},
		{"gitlab", object{"audience": "https://gitlab.com"}, "are made for others"},
		{"gitlab", object{"required": object{"namespace_id": "my-group"}}, "is not what such a claim looks like"},
		{"gitlab", object{"required": object{"namespace_id": "72", "ref_protected": []string{"true", "false"}}}, "see allow: [unprotected_refs] on the page"},
		{"circleci", object{"parameters": object{"org": "acme"}}, "parameters: org is not"},
		{"circleci", object{"audience": "8268f1d5-9e76-4077-bf49-2c2007b7d71f"}, "are made for others"},
		{"buildkite", object{"required": object{"organization_id": "acme-inc"}}, "is not what such a claim looks like"},
		{"fly", object{"audience": "https://fly.io/example-org"}, "are made for others"},
		{"e2b", object{"parameters": object{"project": "prj/x", "keys": "k"}}, "parameters: project is not"},
		{"e2b", object{"parameters": object{"project": "prj", "keys": "../k"}}, "parameters: keys is not"},
		{"e2b", object{"parameters": object{"project": "prj", "keys": "/evil.example/k"}}, "parameters: keys is not"},
		{"e2b", object{"selectors": object{"sandbox_id": "jti"}}, "selectors sandbox_id: the preset has set this one"},
		{"modal", object{"accept_bearer": nil}, "say accept_bearer: true"},
		{"modal", object{"audience": "https://ebb.example"}, "the platform makes tokens for oidc.modal.com alone"},
		{"modal", object{"max_lifetime": "72h"}, "max_lifetime is more than"},
		{"modal", object{"required": object{"workspace_id": "acme"}}, "is not what such a claim looks like"},
		{"vercel", object{"required": object{"owner_id": "acme"}}, "is not what such a claim looks like"},
		{"vercel", object{"required": object{"owner_id": "team_7Gw5ZMzpQA8h90F832KGp7nwbuh3", "environment": "preview"}}, "see allow: [any_environment] on the page"},
		{"google-compute", object{"required": object{"google.compute_engine.project_number": "my-project"}}, "is not what such a claim looks like"},
		{"google-cloud-run", object{"required": object{"email": "tool@my-project.iam.gserviceaccount.com"}}, "name the values of sub"},
		{"google-gke", object{"parameters": object{"project": "p", "location": "l", "cluster": "c/x"}}, "parameters: cluster is not"},
		{"google-gke", object{"audience": "https://container.googleapis.com/v1/projects/my-project/locations/europe-west1/clusters/agents"}, "are made for others"},
		{"azure-v1", object{"parameters": object{"tenant": "common"}}, "parameters: tenant is not"},
		{"azure-v1", object{"audience": "https://management.azure.com/"}, "are made for others"},
		{"azure-v1", object{"required": object{"oid": uuid, "tid": uuid}}, "is not among what the preset accepts"},
	} {
		if _, err := newVendor(t, readGolden(t, tc.preset)).config(tc.change); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %v: got %v, want %q", tc.preset, tc.change, err, tc.want)
		}
	}
	_, err := newVendor(t, readGolden(t, "github-actions")).config(object{"audience": nil, "required": nil, "issuer": "x", "leeway": "1h"})
	if err == nil || strings.Count(err.Error(), "\n") < 3 {
		t.Errorf("got %v, want all problems at once", err)
	}
}

// TestPresetNarrower: what configuration may say beside a preset.
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

// TestWithoutPreset: the keys of presets mean nothing without one.
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

// FuzzDecode: whatever a configuration says beside a preset, the issuer and the
// place of the keys are the platform's.
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
