package oidc

import (
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// sandboxPresets returns the presets of platforms that run sandboxes and functions.
func sandboxPresets() []preset {
	return []preset{fly(), e2b(), modal(), vercel()}
}

// fly returns the preset for Fly.io. Source: fly.io/docs/security/openid-connect. The
// API socket /.fly/api issues a token to every process of the machine, for any audience.
func fly() preset {
	return preset{
		name: "fly", params: []param{{name: "org", pattern: slugText}},
		issuer: "https://oidc.fly.io/{org}", keys: "https://oidc.fly.io/{org}/.well-known/jwks",
		algs: []jose.Alg{jose.RS256}, maxLifetime: 15 * time.Minute,
		refused: []string{"https://fly.io"},
		owners:  []owner{{"org_id", idText, "the id of your organization as a token of one of your machines shows it; its slug can be renamed"}},
		present: []string{"app_id", "machine_id"},
		unique:  [][]string{{"machine_id"}},
		selectors: map[string]string{
			"org_id": "org_id", "app_id": "app_id", "app_name": "app_name", "machine_id": "machine_id", "machine_name": "machine_name",
			"machine_version": "machine_version", "image": "image", "image_digest": "image_digest", "region": "region",
		},
	}
}

// e2b returns the preset for E2B. Sources: Secret.iamToken of the E2B SDK (2.39) and its
// workload identity page, a private beta. The egress proxy of the sandbox requests a
// JWT-SVID of the issuer https://id.e2b.dev for each request. The address of the keys
// is documented only in the issuer's discovery document, so the operator copies the
// path from there.
func e2b() preset {
	return preset{
		name: "e2b", params: []param{{name: "project", pattern: idText}, {name: "keys", pattern: pathText}},
		issuer: "https://id.e2b.dev", keys: "https://id.e2b.dev/{keys}",
		algs: []jose.Alg{jose.RS256, jose.ES256}, maxLifetime: time.Hour,
		shape:  "spiffe://id.e2b.dev/{project}/<sandbox_id>/<execution_id>",
		unique: [][]string{{"sandbox_id"}, {"execution_id"}},
	}
}

// modal returns the preset for Modal. Source: modal.com/docs/guide/oidc-integration.
// MODAL_IDENTITY_TOKEN is made once per container, expires after two days, and has the
// same audience for every service.
func modal() preset {
	return preset{
		name: "modal", issuer: "https://oidc.modal.com", keys: "https://oidc.modal.com/.well-known/jwks.json",
		algs: []jose.Alg{jose.RS256}, maxLifetime: 49 * time.Hour,
		audience: "oidc.modal.com", bearer: true,
		owners:  []owner{{"workspace_id", modalWorkspace, "the ids (ac-...) of your workspaces: modal token info"}},
		present: []string{"container_id", "app_id", "environment_id"},
		unique:  [][]string{{"container_id"}},
		selectors: map[string]string{
			"workspace_id": "workspace_id", "environment_id": "environment_id", "environment_name": "environment_name",
			"app_id": "app_id", "app_name": "app_name", "function_id": "function_id", "function_name": "function_name", "container_id": "container_id",
		},
	}
}

// vercel returns the preset for Vercel in team issuer mode. Source:
// vercel.com/docs/oidc/reference. Audiences other than https://vercel.com/<team> are
// available through Vercel's token exchange.
func vercel() preset {
	return preset{
		name: "vercel", params: []param{{name: "team", pattern: slugText}},
		issuer: "https://oidc.vercel.com/{team}", keys: "https://oidc.vercel.com/{team}/.well-known/jwks",
		algs: []jose.Alg{jose.RS256}, maxLifetime: time.Hour,
		refused:  []string{"https://vercel.com"},
		owners:   []owner{{"owner_id", vercelOwner, "the id of your team (team_...), not its slug: Settings, General, Team ID"}},
		required: map[string][]string{"environment": {"production"}},
		present:  []string{"project_id"},
		unique:   [][]string{{"project_id", "environment"}},
		selectors: map[string]string{
			"owner_id": "owner_id", "owner": "owner", "project_id": "project_id", "project": "project", "environment": "environment",
		},
		allow: map[string]allowance{
			"preview":         {"environment", []string{"preview"}},
			"any_environment": {"environment", nil},
		},
	}
}
