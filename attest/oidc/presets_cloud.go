package oidc

import (
	"regexp"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

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
		shared:   map[string]*regexp.Regexp{"xms_mirid": azureShared, "xms_az_rid": azureShared},
		selectors: map[string]string{
			"tid": "tid", "oid": "oid", "xms_mirid": "xms_mirid", "xms_az_rid": "xms_az_rid",
			"client_id": map[string]string{"1.0": "appid", "2.0": "azp"}[version],
		},
	}
}
