package oidc_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/oidc"
)

// TestCheckRegistration checks that selectors which identify one sandbox are accepted,
// and that names, refs and other values shared by several are refused.
func TestCheckRegistration(t *testing.T) {
	t.Parallel()
	type set = map[string]string
	for name, tc := range map[string]struct{ good, bad []set }{
		"github-actions": {
			[]set{{"repository_id": "74", "run_id": "1"}, {"repository_id": "74", "check_run_id": "1", "environment": "prod"}},
			[]set{{"sub": "repo:octo-org/octo-repo:ref:refs/heads/main"}, {"repository": "octo-org/octo-repo"}, {"ref": "refs/heads/main"},
				{"repository_id": "74", "environment": "prod"}, {"run_id": "1"}, {"repository_id": "74", "run_id": ""}, {}},
		},
		"gitlab":         {[]set{{"project_id": "20", "job_id": "302"}, {"project_id": "20", "pipeline_id": "574"}}, []set{{"project_path": "group/p"}, {"project_id": "20"}, {"job_id": "302"}}},
		"buildkite":      {[]set{{"job_id": "j"}, {"pipeline_id": "p", "build_number": "1"}}, []set{{"build_number": "1"}, {"pipeline_slug": "p", "build_number": "1"}}},
		"circleci":       {[]set{{"job_id": "j"}, {"workflow_id": "w"}}, []set{{"project_id": "p", "vcs_ref": "refs/heads/main"}}},
		"fly":            {[]set{{"machine_id": "m"}}, []set{{"machine_name": "m"}, {"app_id": "a", "image_digest": "sha256:2c"}, {"sub": "o:a:m"}}},
		"e2b":            {[]set{{"sandbox_id": "s"}, {"execution_id": "x"}}, []set{{"template": "x"}}},
		"modal":          {[]set{{"container_id": "ta-1"}}, []set{{"function_id": "fu-1"}, {"sub": "modal:workspace_id:ac-1"}}},
		"vercel":         {[]set{{"project_id": "prj_1"}}, []set{{"project": "acme_website"}, {"environment": "production"}}},
		"google-compute": {[]set{{"instance_id": "1"}}, []set{{"instance_name": "example"}, {"service_account": "x"}, {"sub": "1"}}},
		"google-gke":     {[]set{{"pod_uid": "u"}, {"pod": "tool-1"}}, []set{{"namespace": "agents"}, {"service_account": "worker"}}},
		"azure-v1":       {[]set{{"xms_mirid": "/subscriptions/x"}, {"xms_az_rid": "/subscriptions/x"}}, []set{{"client_id": "c"}, {"oid": "o"}}},
	} {
		a := newVendor(t, readGolden(t, name)).open(nil)
		for _, r := range tc.good {
			if err := a.CheckRegistration(r); err != nil {
				t.Errorf("%s %v: %v", name, r, err)
			}
		}
		for _, r := range tc.bad {
			err := a.CheckRegistration(r)
			if err == nil || !strings.HasPrefix(err.Error(), "register ") {
				t.Errorf("%s %v: got %v", name, r, err)
				continue
			}
			for _, value := range r {
				if len(value) > 4 && strings.Contains(err.Error(), value) {
					t.Errorf("%s: the error repeats %q", name, value)
				}
			}
		}
	}
}

// A user-assigned identity of Azure can be shared by many machines and by workloads
// federated with it, so its resource path does not identify one sandbox.
func TestSharedIdentity(t *testing.T) {
	t.Parallel()
	type set = map[string]string
	const of = "/subscriptions/819a7d8f-1b0a-4121-b7dc-d001d9f109f1/resourcegroups/agents/providers/"
	machine, shared := of+"Microsoft.Compute/virtualMachines/tool-1", of+"Microsoft.ManagedIdentity/userAssignedIdentities/worker"
	for _, name := range []string{"azure-v1", "azure-v2"} {
		a := newVendor(t, readGolden(t, name)).open(nil)
		for _, bad := range []set{{"xms_mirid": shared}, {"xms_mirid": strings.ToLower(shared)}, {"xms_mirid": shared, "oid": "o"}, {"xms_az_rid": shared}} {
			if err := a.CheckRegistration(bad); err == nil || strings.Contains(err.Error(), "agents") {
				t.Errorf("%s %v: got %v", name, bad, err)
			}
		}
		for _, good := range []set{{"xms_mirid": machine}, {"xms_mirid": shared, "xms_az_rid": machine}, {"xms_az_rid": machine}} {
			if err := a.CheckRegistration(good); err != nil {
				t.Errorf("%s %v: %v", name, good, err)
			}
		}
		// A shared value that the configuration requires is refused too.
		v := newVendor(t, readGolden(t, name))
		required := changed(v.Config["required"].(object), object{"xms_mirid": shared})
		if v.open(object{"required": required}).CheckRegistration(set{"client_id": "c"}) == nil {
			t.Errorf("%s: a shared identity by configuration is taken", name)
		}
	}
}

// Every selector that CheckRegistration asks for is one that the platform's tokens have.
func TestRegistrationIsPossible(t *testing.T) {
	t.Parallel()
	for name, g := range goldens(t) {
		v := newVendor(t, g)
		a := v.open(nil)
		if err := a.CheckRegistration(g.Identity.Selectors); err != nil {
			t.Errorf("%s: all of a token's own selectors: %v", name, err)
		}
		if name != "google-cloud-run" && a.CheckRegistration(map[string]string{"x": "y"}) == nil {
			t.Errorf("%s: anything is taken", name)
		}
	}
}

// With two accepted service accounts, the registration must name one of them.
func TestRegistrationOfSeveral(t *testing.T) {
	t.Parallel()
	v := newVendor(t, readGolden(t, "google-cloud-run"))
	one, two := v.open(nil), v.open(object{"required": object{"sub": []string{"107517467455664443766", "2"}}})
	if err := one.CheckRegistration(map[string]string{"service_account": "x"}); err != nil {
		t.Error(err)
	}
	if two.CheckRegistration(map[string]string{"service_account": "x"}) == nil {
		t.Error("either of two is taken")
	}
	if err := two.CheckRegistration(map[string]string{"sub": "2"}); err != nil {
		t.Error(err)
	}
	any, err := oidc.New(oidc.Config{Name: "any", Issuer: "https://i.example", Audience: "https://ebb.example", JWKSURL: "https://i.example/k"})
	if err != nil || any.CheckRegistration(map[string]string{"sub": "x"}) != nil {
		t.Errorf("an issuer that nothing is known of: %v", err)
	}
}
