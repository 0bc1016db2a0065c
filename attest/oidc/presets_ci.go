package oidc

import (
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// ciPresets returns the presets of continuous integration platforms.
func ciPresets() []preset {
	return []preset{
		// Sources on docs.github.com: "OpenID Connect reference" for the claims,
		// "Switching to a unique token URL" for the issuer of an enterprise,
		// "Substituted values" for GHE.com.
		github("github-actions", "https://token.actions.githubusercontent.com{/enterprise}", param{name: "enterprise", pattern: slugText, optional: true}),
		github("github-ghe", "https://token.actions.{subdomain}.ghe.com", param{name: "subdomain", pattern: slugText}),
		github("github-server", "https://{host}/_services/token", param{name: "host", pattern: hostText, host: true}),
		gitlab(),
		buildkite(),
		circleci(),
	}
}

// github returns a preset for one issuer of GitHub Actions. It accepts only events that
// run code from a branch or tag of the repository itself. pull_request and merge_group
// can run code of a fork. pull_request_target, workflow_run and issue_comment run with
// the repository's rights after an action of an outsider. No claim identifies a fork.
func github(name, issuer string, p param) preset {
	return preset{
		name: name, params: []param{p}, issuer: issuer, keys: issuer + "/.well-known/jwks",
		algs: []jose.Alg{jose.RS256}, maxLifetime: 15 * time.Minute,
		// The default audience is the owner's URL, which is the same for every service.
		refused:  []string{"https://github.com/", "http://github.com/", "https://{subdomain}.ghe.com", "https://{host}"},
		owners:   []owner{{"repository_owner_id", digitsText, "the ids, not the names, of the owners whose repositories may ask: gh api users/OWNER --jq .id"}},
		required: map[string][]string{"event_name": {"push", "workflow_dispatch", "repository_dispatch", "schedule", "release", "create", "deployment"}},
		present:  []string{"repository_id", "run_id", "ref"},
		unique:   [][]string{{"repository_id", "check_run_id"}, {"repository_id", "run_id"}},
		selectors: map[string]string{
			"repository_id": "repository_id", "repository_owner_id": "repository_owner_id", "repository": "repository",
			"run_id": "run_id", "run_attempt": "run_attempt", "check_run_id": "check_run_id",
			"environment": "environment", "ref": "ref", "ref_type": "ref_type", "ref_protected": "ref_protected", "sha": "sha", "event_name": "event_name",
			"job_workflow_ref": "job_workflow_ref", "job_workflow_sha": "job_workflow_sha", "workflow_ref": "workflow_ref", "workflow_sha": "workflow_sha",
			"runner_environment": "runner_environment", "repository_visibility": "repository_visibility", "actor_id": "actor_id",
		},
		allow: map[string]allowance{
			"pull_request":        {"event_name", []string{"pull_request"}},
			"pull_request_target": {"event_name", []string{"pull_request_target"}},
			"workflow_run":        {"event_name", []string{"workflow_run"}},
			"issue_comment":       {"event_name", []string{"issue_comment"}},
			"merge_group":         {"event_name", []string{"merge_group"}},
		},
	}
}

// gitlab returns the preset for GitLab. Source:
// docs.gitlab.com/ci/secrets/id_token_authentication, "Token payload". A token expires
// with the timeout of its job, an hour by default. In a merge request pipeline of a
// fork, project_id and namespace_id are those of the fork.
func gitlab() preset {
	return preset{
		name: "gitlab", params: []param{{name: "url", pattern: urlText, fallback: "https://gitlab.com", host: true}},
		issuer: "{url}", keys: "{url}/oauth/discovery/keys", algs: []jose.Alg{jose.RS256}, maxLifetime: time.Hour,
		refused:  []string{"{url}"},
		owners:   []owner{{"namespace_id", digitsText, "the ids, not the paths, of the groups or users whose projects may ask: glab api groups/GROUP"}},
		required: map[string][]string{"ref_protected": {"true"}},
		present:  []string{"project_id", "pipeline_id", "job_id"},
		unique:   [][]string{{"project_id", "job_id"}, {"project_id", "pipeline_id"}},
		selectors: map[string]string{
			"project_id": "project_id", "namespace_id": "namespace_id", "project_path": "project_path",
			"pipeline_id": "pipeline_id", "job_id": "job_id", "pipeline_source": "pipeline_source",
			"ref": "ref", "ref_type": "ref_type", "ref_path": "ref_path", "ref_protected": "ref_protected", "sha": "sha",
			"environment": "environment", "environment_protected": "environment_protected",
			"runner_id": "runner_id", "runner_environment": "runner_environment", "user_id": "user_id",
		},
		allow: map[string]allowance{"unprotected_refs": {"ref_protected", nil}},
	}
}

// buildkite returns the preset for Buildkite. Source:
// buildkite.com/docs/agent/cli/reference/oidc. All organizations have the same issuer.
// A token has the ids only when the job requests them (--claim). step_key is null for a
// step without a key, so it is not a selector.
func buildkite() preset {
	return preset{
		name: "buildkite", issuer: "https://agent.buildkite.com", keys: "https://agent.buildkite.com/.well-known/jwks",
		algs: []jose.Alg{jose.RS256}, maxLifetime: 15 * time.Minute,
		refused: []string{"https://buildkite.com/"},
		owners:  []owner{{"organization_id", uuidText, "the UUIDs of your organizations, not their slugs: Settings, GraphQL or the API"}},
		present: []string{"pipeline_id", "job_id", "build_branch"},
		unique:  [][]string{{"job_id"}, {"pipeline_id", "build_number"}},
		selectors: map[string]string{
			"organization_id": "organization_id", "pipeline_id": "pipeline_id", "pipeline_slug": "pipeline_slug",
			"build_number": "build_number", "build_branch": "build_branch", "build_tag": "build_tag", "build_commit": "build_commit",
			"job_id": "job_id", "agent_id": "agent_id", "build_source": "build_source", "runner_environment": "runner_environment",
		},
	}
}

// circleci returns the preset for CircleCI. Source:
// circleci.com/docs/openid-connect-tokens, "Format of the OpenID Connect ID token". A
// build of a fork has the organization that builds it, and the fork as vcs-origin. In
// a job that is rerun with SSH, a person has a shell.
func circleci() preset {
	claim := func(name string) string { return "/oidc.circleci.com~1" + name }
	return preset{
		name: "circleci", params: []param{{name: "org", pattern: uuidText}},
		issuer: "https://oidc.circleci.com/org/{org}", keys: "https://oidc.circleci.com/org/{org}/.well-known/jwks-pub.json",
		algs: []jose.Alg{jose.RS256}, maxLifetime: time.Hour,
		refused:  []string{"{org}"},
		owners:   []owner{{claim("vcs-origin"), originText, "the repositories that may ask, such as github.com/acme/app; a fork's builds have another"}},
		required: map[string][]string{claim("ssh-rerun"): {"false"}},
		present:  []string{claim("project-id"), claim("job-id")},
		unique:   [][]string{{"job_id"}, {"workflow_id"}, {"pipeline_id"}},
		selectors: map[string]string{
			"org_id": claim("org-id"), "project_id": claim("project-id"), "pipeline_id": claim("pipeline-id"),
			"pipeline_definition_id": claim("pipeline-definition-id"), "workflow_id": claim("workflow-id"), "job_id": claim("job-id"),
			"vcs_origin": claim("vcs-origin"), "vcs_ref": claim("vcs-ref"),
		},
		allow: map[string]allowance{"any_origin": {claim("vcs-origin"), nil}, "ssh_rerun": {claim("ssh-rerun"), nil}},
	}
}
