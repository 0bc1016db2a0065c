package oidc_test

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
)

// TestPresetSuite runs the suite of package attesttest with every preset.
func TestPresetSuite(t *testing.T) {
	t.Parallel()
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVendor(t, g)
			now := v.clock.Now()
			aud := v.evidence(nil) // for its audience
			with := func(change object) func(*testing.T) attest.Evidence {
				return func(*testing.T) attest.Evidence { return v.evidence(change) }
			}
			header := func(h object) func(*testing.T) attest.Evidence {
				return func(*testing.T) attest.Evidence {
					return v.evidenceWith(changed(object{"alg": "RS256", "typ": "JWT", "kid": "vendor-1"}, h), nil)
				}
			}
			audience, _ := v.Config["audience"].(string)
			if audience == "" {
				audience = v.Claims["aud"].(string)
			}
			issuer := v.Claims["iss"].(string)
			attesttest.Run(t, attesttest.Suite{
				Attestor: v.open(object{"leeway": "0s"}), Clock: v.clock, Good: with(nil),
				Bad: map[string]func(*testing.T) attest.Evidence{
					"wrong audience":         with(object{"aud": audience + "/"}),
					"a part of the audience": with(object{"aud": audience[:len(audience)-1]}),
					"no audience":            with(object{"aud": nil}),
					"for somebody else too":  with(object{"aud": []string{audience, "https://other.example"}}),
					"wrong issuer":           with(object{"iss": issuer + "/x"}),
					"issuer of another host": with(object{"iss": issuer + ".evil.example"}),
					"issuer by http":         with(object{"iss": strings.Replace(issuer, "https:", "http:", 1)}),
					"expired":                with(object{"iat": now.Add(-time.Minute).Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(-time.Second).Unix()}),
					"no expiry":              with(object{"exp": nil}),
					"not yet valid":          with(object{"nbf": now.Add(time.Second).Unix()}),
					"clock off by 5 minutes": with(object{"iat": now.Add(5 * time.Minute).Unix(), "nbf": nil}),
					"three days":             with(object{"exp": now.Add(72 * time.Hour).Unix()}),
					"no subject":             with(object{"sub": nil}),
					"at+jwt":                 header(object{"typ": "at+jwt"}),
					"none":                   header(object{"alg": "none"}),
					"HS256":                  header(object{"alg": "HS256"}),
					"PS256":                  header(object{"alg": "PS256"}),
					"ES256":                  header(object{"alg": "ES256"}),
					"jku":                    header(object{"jku": "https://evil.example/keys"}),
					"wrong key": func(t *testing.T) attest.Evidence {
						other := &vendor{t: t, clock: v.clock, golden: g, key: stranger}
						return other.evidence(nil)
					},
				},
				Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
					down := newVendor(t, g)
					down.status = http.StatusInternalServerError
					return down.open(nil), down.evidence(nil)
				},
				Lures: func(_ *testing.T, url string) []attest.Evidence {
					return []attest.Evidence{aud, header(object{"jku": url})(t), header(object{"x5u": url})(t), header(object{"kid": url})(t),
						with(object{"iss": url})(t), with(object{"aud": url})(t), with(object{"sub": url})(t), with(object{"jwks_uri": url})(t)}
				},
			})
		})
	}
}

// TestPresetHostile checks that presets refuse validly signed tokens of their platform
// that belong to others or were issued under unsafe conditions.
func TestPresetHostile(t *testing.T) {
	t.Parallel()
	const x = "oidc.circleci.com/"
	for name, cases := range map[string]map[string]object{
		"github-actions": {
			"a fork's pull request":            {"event_name": "pull_request", "ref": "refs/pull/7/merge", "head_ref": "main", "base_ref": "main", "environment": nil},
			"pull_request_target":              {"event_name": "pull_request_target"},
			"a workflow after a fork's":        {"event_name": "workflow_run"},
			"a stranger's comment":             {"event_name": "issue_comment"},
			"a merge queue":                    {"event_name": "merge_group"},
			"an event that nobody knows":       {"event_name": "push2"},
			"an event in capitals":             {"event_name": "PUSH"},
			"no event":                         {"event_name": nil},
			"the owner's name, another's id":   {"repository_owner_id": "66"},
			"an id that starts like it":        {"repository_owner_id": "655"},
			"an id with a blank":               {"repository_owner_id": "65 "},
			"an id with a zero":                {"repository_owner_id": "065"},
			"two ids":                          {"repository_owner_id": []string{"65"}},
			"no owner id":                      {"repository_owner_id": nil},
			"no repository id":                 {"repository_id": nil},
			"an empty repository id":           {"repository_id": ""},
			"no run":                           {"run_id": nil},
			"an enterprise's issuer":           {"iss": "https://token.actions.githubusercontent.com/octocat-inc"},
			"a GHE.com issuer":                 {"iss": "https://token.actions.octocorp.ghe.com"},
			"the default audience":             {"aud": "https://github.com/octo-org"},
			"a repository that is an array":    {"repository_id": []string{"74"}},
			"a letter that is a look-alike":    {"event_name": "wоrkflow_dispatch"},
			"a reference with a bidi override": {"ref": "refs/heads/main\u202e"},
		},
		"github-ghe":    {"github.com": {"iss": "https://token.actions.githubusercontent.com"}, "another subdomain": {"iss": "https://token.actions.octocorp2.ghe.com"}, "owner": {"repository_owner_id": "66"}},
		"github-server": {"github.com": {"iss": "https://token.actions.githubusercontent.com"}, "another host": {"iss": "https://git.corp.example.evil.example/_services/token"}, "owner": {"repository_owner_id": "66"}},
		"gitlab": {
			"an unprotected ref":              {"ref_protected": "false"},
			"protected as a boolean false":    {"ref_protected": false},
			"protection that is not said":     {"ref_protected": nil},
			"protection in capitals":          {"ref_protected": "TRUE"},
			"a fork's merge request":          {"namespace_id": "99", "project_id": "21", "pipeline_source": "merge_request_event", "sub": "project_path:my-group/my-project:ref_type:branch:ref:main"},
			"the same path after a deletion":  {"namespace_id": "721"},
			"no namespace":                    {"namespace_id": nil},
			"no project":                      {"project_id": nil},
			"no job":                          {"job_id": nil},
			"a self-managed instance":         {"iss": "https://gitlab.example.com"},
			"the issuer with a slash":         {"iss": "https://gitlab.com/"},
			"the default audience":            {"aud": "https://gitlab.com"},
			"a job that may take three hours": {"exp": int64(1_800_000_000 + 3*3600)},
		},
		"buildkite": {
			"another organization with the slug": {"organization_id": "0184990a-477b-4fa8-9968-496074483c78"},
			"without --claim organization_id":    {"organization_id": nil},
			"without --claim pipeline_id":        {"pipeline_id": nil},
			"no job":                             {"job_id": nil},
			"an hour":                            {"exp": int64(1_800_000_000 + 3600)},
		},
		"circleci": {
			"a fork":                         {x + "vcs-origin": "github.com/mallory/app", x + "vcs-ref": "refs/heads/pull/7"},
			"a repository that starts alike": {x + "vcs-origin": "github.com/acme/app2"},
			"an owner that ends alike":       {x + "vcs-origin": "evil.example/github.com/acme/app"},
			"no origin":                      {x + "vcs-origin": nil},
			"a rerun with SSH":               {x + "ssh-rerun": true},
			"a rerun that is not said":       {x + "ssh-rerun": nil},
			"another organization":           {"iss": "https://oidc.circleci.com/org/00000000-9e76-4077-bf49-2c2007b7d71f"},
			"no project":                     {x + "project-id": nil},
			"the default audience":           {"aud": "8268f1d5-9e76-4077-bf49-2c2007b7d71f"},
		},
		"fly": {
			"another organization":                    {"iss": "https://oidc.fly.io/example-org2", "org_id": "3"},
			"the organization's name, another's id":   {"org_id": "22222223"},
			"no organization":                         {"org_id": nil},
			"no machine":                              {"machine_id": nil},
			"an empty machine":                        {"machine_id": ""},
			"no app":                                  {"app_id": nil},
			"the default audience":                    {"aud": "https://fly.io/example-org"},
			"an image digest that cannot be compared": {"image_digest": []string{"sha256:2c1c"}},
		},
		"e2b": {
			"another project":               {"sub": "spiffe://id.e2b.dev/prj-evil/i8k2m4q6s8u0w2y4a6c8/ex-01"},
			"a project that starts alike":   {"sub": "spiffe://id.e2b.dev/prj-acme2/i8k2m4q6s8u0w2y4a6c8/ex-01"},
			"another trust domain":          {"sub": "spiffe://id.e2b.dev.evil.example/prj-acme/s/ex-01"},
			"the project behind another":    {"sub": "spiffe://id.e2b.dev/prj-evil/prj-acme/s/ex-01"},
			"no execution":                  {"sub": "spiffe://id.e2b.dev/prj-acme/i8k2m4q6s8u0w2y4a6c8"},
			"an empty sandbox":              {"sub": "spiffe://id.e2b.dev/prj-acme//ex-01"},
			"an empty execution":            {"sub": "spiffe://id.e2b.dev/prj-acme/s/"},
			"more behind":                   {"sub": "spiffe://id.e2b.dev/prj-acme/s/ex-01/x"},
			"https":                         {"sub": "https://id.e2b.dev/prj-acme/s/ex-01"},
			"a name as it is in the preset": {"sub": "spiffe://id.e2b.dev/<project>/s/ex-01"},
		},
		"modal": {
			"another workspace":            {"workspace_id": "ac-99999"},
			"a workspace that starts like": {"workspace_id": "ac-12345abcd0"},
			"no workspace":                 {"workspace_id": nil},
			"no container":                 {"container_id": nil},
			"an empty container":           {"container_id": ""},
			"an audience of its own":       {"aud": "https://ebb.example"},
			"more than two days":           {"exp": int64(1_800_000_000 + 50*3600)},
		},
		"vercel": {
			"a preview":                   {"environment": "preview", "sub": "owner:acme:project:acme_website:environment:production"},
			"development":                 {"environment": "development"},
			"no environment":              {"environment": nil},
			"another team with the slug":  {"owner_id": "team_9Gw5ZMzpQA8h90F832KGp7nwbuh3"},
			"no team":                     {"owner_id": nil},
			"no project":                  {"project_id": nil},
			"the issuer for all teams":    {"iss": "https://oidc.vercel.com"},
			"another team's issuer":       {"iss": "https://oidc.vercel.com/acme2"},
			"the default audience":        {"aud": "https://vercel.com/acme"},
			"a token of twelve hours":     {"exp": int64(1_800_000_000 + 12*3600)},
			"production in another case":  {"environment": "Production"},
			"an environment with a blank": {"environment": "production "},
		},
		"google-compute": {
			"the same service account outside of a VM": {"google": nil},
			"another project, the same account":        {"google|compute_engine|project_number": 739419398127},
			"a number as a fraction":                   {"google|compute_engine|project_number": 739419398126.5},
			"no instance":                              {"google|compute_engine|instance_id": nil},
			"an empty instance":                        {"google|compute_engine|instance_id": ""},
			"claims of the VM one level up":            {"google": object{"project_number": 739419398126, "instance_id": "1", "zone": "z"}},
			"claims of the VM in a text":               {"google": `{"compute_engine":{"project_number":739419398126}}`},
			"the issuer without https":                 {"iss": "accounts.google.com"},
		},
		"google-cloud-run": {
			"another service account":      {"sub": "107517467455664443767"},
			"a mail that is not confirmed": {"email_verified": false},
			"no mail":                      {"email_verified": nil},
			"a project that starts alike":  {"sub": "1075174674556644437660"},
		},
		"google-gke": {
			"another cluster":              {"iss": "https://container.googleapis.com/v1/projects/my-project/locations/europe-west1/clusters/agents2"},
			"another project's cluster":    {"iss": "https://container.googleapis.com/v1/projects/evil/locations/europe-west1/clusters/agents"},
			"another namespace":            {"kubernetes.io|namespace": "agents2"},
			"a token bound to no pod":      {"kubernetes.io|pod": nil},
			"a pod without a UID":          {"kubernetes.io|pod": object{"name": "tool-1"}},
			"no account":                   {"kubernetes.io|serviceaccount": nil},
			"the API server's audience":    {"aud": "https://container.googleapis.com/v1/projects/my-project/locations/europe-west1/clusters/agents"},
			"a namespace that is an array": {"kubernetes.io|namespace": []string{"agents"}},
		},
		"azure-v1": {
			"another tenant, the same oid":   {"iss": "https://sts.windows.net/00000000-4213-49cd-b4d6-be91482ad3c0/", "tid": "00000000-4213-49cd-b4d6-be91482ad3c0"},
			"the issuer's tenant alone":      {"tid": "00000000-4213-49cd-b4d6-be91482ad3c0"},
			"no tenant":                      {"tid": nil},
			"another identity, same subject": {"oid": "92b6f6c3-031f-4219-b042-0a1b2c3d4e60"},
			"an application with a secret":   {"xms_mirid": nil},
			"a token of version 2":           {"ver": "2.0", "iss": "https://login.microsoftonline.com/5a86b3fb-4213-49cd-b4d6-be91482ad3c0/v2.0"},
			"the issuer without its slash":   {"iss": "https://sts.windows.net/5a86b3fb-4213-49cd-b4d6-be91482ad3c0"},
			"for the management API":         {"aud": "https://management.azure.com/"},
		},
		"azure-v2": {
			"another tenant, the same oid": {"iss": "https://login.microsoftonline.com/00000000-4213-49cd-b4d6-be91482ad3c0/v2.0", "tid": "00000000-4213-49cd-b4d6-be91482ad3c0"},
			"any tenant":                   {"iss": "https://login.microsoftonline.com/common/v2.0"},
			"the issuer's tenant alone":    {"tid": "00000000-4213-49cd-b4d6-be91482ad3c0"},
			"another identity":             {"oid": "92b6f6c3-031f-4219-b042-0a1b2c3d4e60"},
			"an application with a secret": {"xms_mirid": nil, "xms_az_rid": nil},
			"a token of version 1":         {"ver": "1.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVendor(t, readGolden(t, name))
			a := v.open(nil)
			for what, change := range cases {
				rejected(t, what, a, v.evidence(change))
			}
			if _, err := a.Attest(t.Context(), v.evidence(nil)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPresetAllow checks that an exception listed in allow accepts its own case and no
// other.
func TestPresetAllow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		preset, allow string
		in            object
		out           []object
	}{
		{"github-actions", "pull_request", object{"event_name": "pull_request"}, []object{{"event_name": "pull_request_target"}, {"event_name": "pull_request", "repository_owner_id": "66"}}},
		{"github-actions", "pull_request_target", object{"event_name": "pull_request_target"}, []object{{"event_name": "pull_request"}, {"event_name": "workflow_run"}}},
		{"github-actions", "workflow_run", object{"event_name": "workflow_run"}, []object{{"event_name": "issue_comment"}}},
		{"gitlab", "unprotected_refs", object{"ref_protected": "false"}, []object{{"ref_protected": "false", "namespace_id": "99"}}},
		{"circleci", "any_origin", object{"oidc.circleci.com/vcs-origin": "github.com/mallory/app"}, []object{{"oidc.circleci.com/ssh-rerun": true}}},
		{"circleci", "ssh_rerun", object{"oidc.circleci.com/ssh-rerun": true}, []object{{"oidc.circleci.com/vcs-origin": "github.com/mallory/app"}}},
		{"vercel", "preview", object{"environment": "preview"}, []object{{"environment": "development"}, {"environment": "staging"}}},
		{"vercel", "any_environment", object{"environment": "staging"}, []object{{"owner_id": "team_9Gw5ZMzpQA8h90F832KGp7nwbuh3"}}},
	} {
		v := newVendor(t, readGolden(t, tc.preset))
		change := object{"allow": []string{tc.allow}}
		if tc.allow == "any_origin" {
			change["required"] = nil
		}
		a := v.open(change)
		if _, err := a.Attest(t.Context(), v.evidence(tc.in)); err != nil {
			t.Errorf("%s %s: %v", tc.preset, tc.allow, err)
		}
		for _, out := range tc.out {
			rejected(t, tc.preset+" "+tc.allow, a, v.evidence(out))
		}
		if _, err := v.open(nil).Attest(t.Context(), v.evidence(tc.in)); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s without %s: %v", tc.preset, tc.allow, err)
		}
	}
}
