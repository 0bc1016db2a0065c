// Package gcp mints access tokens of Google Cloud service accounts by
// generateAccessToken, and narrows those for Cloud Storage by a Credential Access
// Boundary to buckets and prefixes of objects.
//
//	config.go    Config: which service account and which roles an action stands for
//	plan.go      from scopes to a service account and its boundary
//	boundary.go  rules of a boundary, and strings in their conditions
//	driver.go    Driver: Check, Mint, Revoke, Traits, Describe
//	login.go     the broker's own token: by a key of a service account, or of the machine
//	call.go      calls of Google's APIs, and what their errors mean
//	setup.go     CheckSetup: may the broker make tokens of each account
//
// No such token can be taken back: they live short, and the class says so.
package gcp
