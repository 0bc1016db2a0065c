// Package gcp mints access tokens of Google Cloud service accounts by
// generateAccessToken, and narrows those for Cloud Storage by a Credential Access
// Boundary to buckets and prefixes of objects.
//
// Mint converts the scopes into one service account and the rules of its boundary. The
// broker's own token comes from a key of a service account or from the machine. CheckSetup
// checks that the broker may make tokens of each account.
//
// No such token can be revoked. Their lifetimes are short, and their class is ttl-only.
package gcp
