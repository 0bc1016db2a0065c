package oidc

import (
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// preset is the pinned configuration for one platform that issues tokens to its
// workloads. Presets are data, in one file for each sort of platform. The page
// docs/attestors/oidc.md explains the choices.
type preset struct {
	name string
	// params are the parameters of the texts below. {name} in a text stands for the
	// value, {/name} for a slash and the value, or for nothing when the value is empty.
	params []param
	// issuer is the iss of tokens, keys the jwks_uri of the discovery document.
	issuer, keys string
	algs         []jose.Alg
	// audience is set for a platform whose tokens always have this audience. Otherwise
	// the operator chooses one, but none of refused and no URL below one of them.
	audience string
	refused  []string
	// maxLifetime is the longest lifetime of the platform's tokens.
	maxLifetime time.Duration
	// bearer is true when a workload sends the same token to every service. The
	// configuration must then have accept_bearer.
	bearer bool
	// shape is the pattern of the subject, see type shape.
	shape string
	// owners are claims whose accepted values the configuration must list.
	owners []owner
	// required maps claims to their accepted values. present are claims that every
	// token of the platform has, with any value.
	required map[string][]string
	present  []string
	// selectors maps selector names to claim paths. Each set in unique identifies one
	// sandbox, as precisely as the platform's tokens can.
	selectors map[string]string
	unique    [][]string
	// shared maps selectors in unique to a pattern of values that many sandboxes have.
	shared map[string]*lazyregexp.Regexp
	// allow maps the names of exceptions, which weaken the preset, to their effect.
	allow map[string]allowance
}

// param is a parameter of a preset, whose value the operator supplies.
type param struct {
	name     string
	pattern  *lazyregexp.Regexp
	fallback string
	optional bool
	// host is true when the parameter chooses the key server. The server is then the
	// operator's own and may have a private address.
	host bool
}

// owner is a claim that identifies the owner of a workload. Its pattern accepts ids and
// refuses names, because a platform can later assign a released name to another owner.
type owner struct {
	path    string
	pattern *lazyregexp.Regexp
	what    string
}

// allowance widens the requirement of one claim by more values. Without values it
// removes the requirement.
type allowance struct {
	path   string
	values []string
}

var (
	slugText   = lazyregexp.New(`\A[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?\z`)
	idText     = lazyregexp.New(`\A[A-Za-z0-9._-]{1,128}\z`)
	digitsText = lazyregexp.New(`\A[1-9][0-9]{0,20}\z`)
	uuidText   = lazyregexp.New(`\A[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\z`)
	hostText   = lazyregexp.New(`\A[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?(?::[0-9]{1,5})?\z`)
	originText = lazyregexp.New(`\A[A-Za-z0-9][A-Za-z0-9.:/_-]{0,250}\z`)
	pathText   = lazyregexp.New(`\A[A-Za-z0-9._-]{1,100}(?:/[A-Za-z0-9._-]{1,100}){0,4}\z`)
	urlText    = lazyregexp.New(`\Ahttps://[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?(?::[0-9]{1,5})?(?:/[A-Za-z0-9_-]{1,100}){0,4}\z`)
)

// Patterns of ids that are specific to one platform.
var (
	modalWorkspace = lazyregexp.New(`\Aac-[A-Za-z0-9]{1,64}\z`)
	vercelOwner    = lazyregexp.New(`\A(?:team_)?[A-Za-z0-9]{8,64}\z`)
	azureShared    = lazyregexp.New(`(?i)/providers/microsoft\.managedidentity/`)
	googleProject  = lazyregexp.New(`\A[a-z0-9](?:[a-z0-9.:-]{0,98}[a-z0-9])?\z`)
)

func presets() []preset { return slices.Concat(ciPresets(), sandboxPresets(), cloudPresets()) }

// Presets returns the names of the presets, sorted.
func Presets() []string {
	var names []string
	for _, p := range presets() {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}

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

// cloudPresets returns the presets of clouds that issue tokens to machines and services.
func cloudPresets() []preset {
	return []preset{
		googleCompute(), googleCloudRun(), googleGKE(),
		// Access tokens of versions 1 and 2 have different issuers. Source:
		// learn.microsoft.com, "Access tokens in the Microsoft identity platform". The
		// app registration that is the audience chooses the version.
		azure("azure-v1", "1.0", "https://sts.windows.net/{tenant}/", "https://login.microsoftonline.com/{tenant}/discovery/keys"),
		azure("azure-v2", "2.0", "https://login.microsoftonline.com/{tenant}/v2.0", "https://login.microsoftonline.com/{tenant}/discovery/v2.0/keys"),
	}
}

const (
	googleIssuer = "https://accounts.google.com"
	googleKeys   = "https://www.googleapis.com/oauth2/v3/certs"
)

// googleCompute returns the preset for virtual machines of Google Cloud. Source:
// cloud.google.com/compute/docs/instances/verifying-instance-identity, format=full. The
// claims of the instance are required: a token without them can be obtained by every
// user of the service account.
func googleCompute() preset {
	vm := func(claim string) string { return "google.compute_engine." + claim }
	return preset{
		name: "google-compute", issuer: googleIssuer, keys: googleKeys,
		algs: []jose.Alg{jose.RS256}, maxLifetime: time.Hour,
		owners:  []owner{{vm("project_number"), digitsText, "the numbers of your projects: gcloud projects describe PROJECT --format='value(projectNumber)'"}},
		present: []string{vm("instance_id"), vm("zone")},
		unique:  [][]string{{"instance_id"}},
		selectors: map[string]string{
			"project_number": vm("project_number"), "project_id": vm("project_id"), "zone": vm("zone"),
			"instance_id": vm("instance_id"), "instance_name": vm("instance_name"), "instance_created": vm("instance_creation_timestamp"),
			"service_account": "email",
		},
	}
}

// googleCloudRun returns the preset for Cloud Run. Source:
// cloud.google.com/run/docs/securing/service-identity. The token identifies the service
// account, but no service, revision or instance.
func googleCloudRun() preset {
	return preset{
		name: "google-cloud-run", issuer: googleIssuer, keys: googleKeys,
		algs: []jose.Alg{jose.RS256}, maxLifetime: time.Hour,
		owners:    []owner{{"sub", digitsText, "the unique ids of the service accounts: gcloud iam service-accounts describe EMAIL --format='value(uniqueId)'"}},
		required:  map[string][]string{"email_verified": {"true"}},
		unique:    [][]string{{"sub"}},
		selectors: map[string]string{"service_account": "email"},
	}
}

// googleGKE returns the preset for projected service-account tokens of GKE clusters.
// Source of issuer and keys: cloud.google.com/kubernetes-engine/docs/reference/rest,
// projects.locations.clusters.well-known and getJwks.
func googleGKE() preset {
	const cluster = "https://container.googleapis.com/v1/projects/{project}/locations/{location}/clusters/{cluster}"
	k8s := func(claim string) string { return "/kubernetes.io/" + claim }
	return preset{
		name: "google-gke", issuer: cluster, keys: cluster + "/jwks",
		params: []param{{name: "project", pattern: googleProject}, {name: "location", pattern: slugText}, {name: "cluster", pattern: slugText}},
		algs:   []jose.Alg{jose.RS256}, maxLifetime: time.Hour,
		refused: []string{cluster},
		owners:  []owner{{k8s("namespace"), slugText, "the namespaces whose pods may ask"}},
		present: []string{k8s("pod/uid"), k8s("serviceaccount/uid")},
		unique:  [][]string{{"pod_uid"}, {"namespace", "pod"}},
		selectors: map[string]string{
			"namespace": k8s("namespace"), "pod": k8s("pod/name"), "pod_uid": k8s("pod/uid"),
			"service_account": k8s("serviceaccount/name"), "service_account_uid": k8s("serviceaccount/uid"), "node": k8s("node/name"),
		},
	}
}

// azure returns a preset for managed identities. Source:
// learn.microsoft.com/entra/identity-platform, "Access token claims reference". Only
// tokens of managed identities have xms_mirid. It names the resource, or a
// user-assigned identity; many resources, and workloads federated with the identity,
// can share the latter, and xms_az_rid then names the resource. A token is valid for
// 24 hours and has an iat five minutes before its issuance.
func azure(name, version, issuer, keys string) preset {
	return preset{
		name: name, issuer: issuer, keys: keys, params: []param{{name: "tenant", pattern: uuidText}},
		algs: []jose.Alg{jose.RS256}, maxLifetime: 24*time.Hour + 5*time.Minute,
		refused: []string{"https://management.azure.com", "https://management.core.windows.net", "https://graph.microsoft.com", "https://vault.azure.net",
			"https://storage.azure.com", "https://database.windows.net", "00000003-0000-0000-c000-000000000000", "00000002-0000-0000-c000-000000000000"},
		owners:   []owner{{"oid", uuidText, "the object (principal) ids of the managed identities: az identity show --query principalId"}},
		required: map[string][]string{"tid": {"{tenant}"}, "ver": {version}},
		present:  []string{"xms_mirid"},
		unique:   [][]string{{"xms_mirid"}, {"xms_az_rid"}},
		shared:   map[string]*lazyregexp.Regexp{"xms_mirid": azureShared, "xms_az_rid": azureShared},
		selectors: map[string]string{
			"tid": "tid", "oid": "oid", "xms_mirid": "xms_mirid", "xms_az_rid": "xms_az_rid",
			"client_id": map[string]string{"1.0": "appid", "2.0": "azp"}[version],
		},
	}
}

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
