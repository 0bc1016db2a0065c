// Package aws mints AWS sessions with sts:AssumeRole. The role is what the
// operator would ever allow; the session policy, compiled from the scopes of one
// lease and never left out, is what this sandbox may do, and every Allow in it
// ends with the lease: that is how a session lives less than STS's 900 s.
//
// A scope is <provider>:<bucket>/<key>:<action> for S3, where the actions are
// read, write, list, delete and promote, or one of the statements that the
// operator has configured for other services.
//
// STS has no call that ends a session. What can be taken back is what the role
// may do in it: one inline policy per role, "ebb-revoked", denies everything to
// the sessions it names. IAM spreads that within seconds, sometimes longer, so the
// class is eventual and the bound is configured. What the policy cannot hold any
// more is denied by the time of issue, of a task's sessions or of all.
//
// Other services that speak STS: flavor rgw (Ceph RADOS Gateway: the same, by
// session name) and minio (no roles, so sessions end by time alone: ttl-only. What
// it has to revoke tokens, TokenRevokeType, is not used: in its source the node
// that is asked tells no other, and an intent revoked before its session is made
// stays usable).
//
// STS cannot list sessions, so there is no Lister: an intent without an outcome
// is settled by its handle, which is durable before AssumeRole is called.
//
//	config.go     Config, and what is wrong with one
//	settings.go   its values, checked
//	roles.go      which role serves which scopes
//	statement.go  the operator's statements, as templates
//	s3.go         scopes of S3 to permissions; areas with their own rules
//	policy.go     permissions to the smallest session policy that says the same
//	client.go     SDK clients that give up in time and know what they cannot know
//	errors.go     AWS's answers to the contract's errors
//	driver.go     Driver: Check, Mint, Traits
//	effect.go     Describe: what a scope lets its holder do
//	inject.go     Injects, Inject: requests of S3, signed anew with the lease's session
//	s3request.go  what a request asks of S3, and which scope is for it
//	handle.go     what is remembered of a session
//	deny.go       the policy of revoked sessions: what it denies
//	denytext.go   its text, written and read
//	fit.go        making it fit: by session, by task, by role
//	writer.go     one writer per role, many revocations per write
//	turn.go       one of its turns: read, write, read back
//	iam.go        the calls of a writer
//	revoke.go     Revoke and Probe
//	check.go      CheckSetup
package aws
