// Package aws attests by a signed sts:GetCallerIdentity request. The holder of AWS
// credentials signs the request for ebb, ebb sends it to STS, and STS returns the owner
// of the credentials. ebb never sees the secret key.
//
// The Attestor issues a nonce and reads the evidence, whose Authorization must have one
// strict form. It sends one request to the endpoint of the configured region and takes
// the account, the role and the session from the ARN in the response.
//
// # Which parts the caller chooses
//
// The caller chooses a region, a date, a session token, the nonce of its challenge and an
// Authorization. ebb builds the rest of the request itself: an endpoint from its
// configuration, one method, path and body, and a fixed set of headers. A signature over
// anything else does not verify. So a caller can change neither the action of the request
// nor the account in the response. Such changes broke similar attestation elsewhere
// (CVE-2020-16250 in Vault, and a similar bug in aws-iam-authenticator).
//
// ebb has no secret key, so it cannot verify the signature. It checks that its own
// headers x-ebb-nonce and x-ebb-issuer are among the signed headers, and STS verifies
// that they were signed with these values. The nonce makes the evidence fresh and binds
// it to one proved key. The issuer binds it to this ebb.
//
// # Guarantees
//
// A holder of these credentials signed for this ebb and this key within the last minute.
// The credentials belong to a role. They do not identify a process, and they identify a
// sandbox only when each sandbox has a role of its own. See docs/attestors/aws.md.
package aws
