// Package jwt mints ebb's own access tokens: RFC 9068 JWTs bound to the key of
// one sandbox. Nothing happens at a third party, so a token that is not on the
// record is dead, and ending a lease needs nothing but the live store.
package jwt
