// Package oidc attests by a JWT that an OpenID Connect issuer signed: a CI job,
// a Kubernetes service account, a cloud's workload token, a person's id_token.
//
//	config.go  Config, and Decode for the configuration file
//	oidc.go    Attestor: Verify with the profile of the issuer, then its claims
//	person.go  ForPeople: what an ID token is, and what it says of the sign-in
//	claims.go  reading one claim by path, as text; the shape of a subject
//	preset.go  what a preset is; presets_ci.go, presets_sandbox.go and
//	           presets_cloud.go are the presets, as data
//	expand.go  a preset and the configuration that narrows it become a Config
//	register.go CheckRegistration: which selectors name one sandbox
//
// The keys come from one place that configuration pins (jose.KeyCache): no
// discovery, no redirect, and no claim or header of a token ever leads to a
// connection. Without keys the attestor cannot judge; with keys, a kid that is
// not among them after one refresh is rejected.
//
// # Selectors
//
// Selectors maps the name of a selector to the path of a claim. A path is either
// names joined by dots (repository_owner, job.runner) or, when a name itself
// holds a dot, a JSON pointer (RFC 6901: /kubernetes.io/namespace). Strings,
// booleans and integers become text; an array, an object, a fraction or null at
// a mapped path is rejected, because there is no one way to compare it. The
// selector sub is always there.
//
// # Presets
//
// A preset pins what is known of a platform: issuer, place of the keys,
// algorithms, audiences that are made for others, lifetimes, claims that must be
// there and which of their values are not dangerous. Configuration names what is
// its own, such as a team, and may narrow the rest. What widens it has a name in
// allow. A preset demands the ids of owners, so that a registration that is too
// wide leads no further than to them, and refuses registrations that no claim
// narrows to one job, machine or sandbox.
//
// # Replay
//
// Workload tokens are legitimately cached and used again, so a second use is no
// attack by itself. Identity.ReplayID is the hash of the signing input, not of
// the token (ECDSA signatures have twins) and not the jti (an issuer that lets a
// workload choose it would let it name somebody else's): the pipeline binds it to
// the first key that uses it.
package oidc
