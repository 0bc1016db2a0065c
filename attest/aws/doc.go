// Package aws attests by a signed sts:GetCallerIdentity request: who holds AWS
// credentials signs one for ebb, ebb sends it to STS, and STS says whose they are.
// The credentials themselves are never shown.
//
//	config.go   Config, and Decode for the configuration file
//	region.go   regions, their partitions and endpoints
//	aws.go      New, Challenge, Attest
//	evidence.go what a caller shows, and the strict form of its Authorization
//	request.go  the one request that ebb sends, and what STS's answers mean
//	caller.go   ARN and user id: whose credentials they are
//
// # What is whose
//
// The caller gives a region, a date, a session token, the challenge's nonce and
// an Authorization. All else is ebb's: it builds the request itself, to an
// endpoint of its configuration, with one method, path and body and a fixed set of
// headers. What a caller signed beyond or beside that does not verify. So nothing
// of a caller's can turn the request into another action, or its answer into
// another's, which is how such attestation was broken elsewhere (CVE-2020-16250 in
// Vault, and its like in aws-iam-authenticator).
//
// ebb cannot verify the signature (it has no secret key): that its own headers
// x-ebb-nonce and x-ebb-issuer are among the signed ones is checked by form, that
// they were signed with these values by STS. The first makes evidence fresh and
// binds it to one proved key, the second to this ebb.
//
// # What it proves
//
// That somebody who holds these credentials signed for this ebb and this key
// within the last minute. Credentials are a role's: not which process has them,
// nor, unless the role is given out that way, which sandbox. See docs.
package aws
