// Package oidc attests by a JWT that an OpenID Connect issuer signed: a CI job,
// a Kubernetes service account, a cloud's workload token, a person's id_token.
//
// The Attestor verifies a token against the profile of its issuer and reads the claims
// that become selectors. A preset and the configuration that narrows it make a Config.
// ForPeople accepts only ID tokens and reads their sign-in claims. CheckRegistration
// tells which selectors identify one sandbox.
//
// The keys come from the one address that the configuration pins (jose.KeyCache).
// There is no discovery and no redirect, and no claim or header of a token causes a
// connection. While no keys have been fetched, the attestor returns an error that does
// not match attest.ErrRejected. Once it has keys, it rejects a token whose kid is not
// among them after one refresh.
//
// # Selectors
//
// Selectors maps the name of a selector to the path of a claim. A path is either
// names joined by dots (repository_owner, job.runner) or, when a name itself
// holds a dot, a JSON pointer (RFC 6901: /kubernetes.io/namespace). Strings,
// booleans and integers become text; an array, an object, a fraction or null at
// a mapped path is rejected, because there is no one way to compare it. The
// selector sub is always set.
//
// # Presets
//
// A preset pins the known facts about a platform: issuer, address of the keys,
// algorithms, audiences of other services, lifetimes, required claims and their safe
// values. The configuration adds its own values, such as a team, and may only narrow
// the preset. Each exception that widens a preset has a name, which the configuration
// lists in allow. A preset requires the ids of owners, so that a registration which
// matches too much still matches only workloads of these owners. It refuses
// registrations that do not identify one job, machine or sandbox.
//
// # Replay
//
// Workload tokens are legitimately cached and used again, so a second use is no
// attack by itself. The pipeline binds Identity.ReplayID to the first key that uses
// it. ReplayID is the hash of the signing input. It is not the hash of the token,
// because every ECDSA signature has a second valid form. It is not the jti, because
// some issuers let a workload choose the jti, and it could choose another workload's.
package oidc
