// Package jwt mints ebb's own access tokens: RFC 9068 JWTs bound to the key of one sandbox.
// No third party is involved. A token without an entry in the live store is refused, so
// revoking a lease needs only the live store.
package jwt
