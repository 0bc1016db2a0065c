// Package aws mints AWS sessions with sts:AssumeRole
// (https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html). The role defines the
// most that the operator ever allows. The session policy defines the permissions of this sandbox.
// It is compiled from the scopes of one lease and always sent. Every Allow in it ends with the
// lease, because an STS session lives at least 900 s.
//
// A scope is <provider>:<bucket>/<key>:<action> for S3, where the actions are read, write, list,
// delete and promote, or one of the statements that the operator has configured for other
// services.
//
// STS has no call that ends a session. Revocation denies the session in the role instead: one
// inline policy per role, "ebb-revoked", denies everything to the sessions that it names. IAM
// propagates a policy within seconds, sometimes later, so that the class is eventual and the bound
// is configured. If the policy has no room for more sessions, it denies by time of issue: all
// sessions of a task, or all of the role.
//
// Other services with STS: flavor rgw (Ceph RADOS Gateway) works in the same way, by session name.
// Flavor minio has no roles, so that its sessions end by expiry only (ttl-only). MinIO can revoke
// tokens (TokenRevokeType), but ebb does not use that: in its source, the node that receives the
// call does not inform the other nodes, and an intent that is revoked before its session is made
// stays usable.
//
// STS cannot list sessions, so there is no Lister. An intent without an outcome is settled by its
// handle, which is stored before AssumeRole is called.
//
// Each role has one writer for its policy of revoked sessions. It takes many revocations per turn:
// it reads the policy, shortens it to the size limit if necessary, writes it, and reads it back.
package aws
