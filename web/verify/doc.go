// Package verify is for resource servers that accept ebb's access tokens. It
// verifies them offline and follows ebb's revocation feed. It imports no
// package of the broker.
//
//	v, err := verify.New(verify.Config{...})
//	go v.Run(ctx)
//	http.Handle(v.MetadataPath(), v.Metadata())
//	http.Handle("/", v.Middleware(app))
//
// The steps of Verify for one request, and the file of each step:
//
//	config.go    Config and New
//	bearer.go    the token, from the Authorization header only
//	cache.go     tokens whose signature was verified before
//	token.go     RFC 9068: signature, issuer, audience, dates, required claims
//	possession.go  the key that the token is bound to: DPoP proof (RFC 9449) or
//	             client certificate (RFC 8705)
//	replay.go    every proof is accepted once, also across a restart
//	revoked.go   the revoked set, and its age
//	verify.go    the order of these steps; scopes last
//	error.go     Error and the challenge (RFC 6750, RFC 9449, RFC 9728)
//	metadata.go  protected resource metadata (RFC 9728)
//	middleware.go  net/http handlers; package echoverify has them for echo
//
// Data that Run keeps current:
//
//	jwks.go      ebb's signing keys
//	follow.go    the loop that follows the feed
//	feed.go      Feed, and its implementation over HTTP
//
// # How long a revoked token can still pass
//
// The feed is a long poll, so an event usually arrives within one round trip.
// The bound is Config.MaxStaleness (10 s by default). If the last complete
// response of the feed was requested longer ago than that, or none has arrived
// since the start, every request is answered with 503 and Retry-After. A token
// is thus refused at most MaxStaleness after ebb has acknowledged its
// revocation.
//
// # Memory use
//
// Verified tokens: CacheSize entries of at most 8 KiB. Proofs: Replay entries
// of about 40 bytes, each removed after 2 min; one key may use a quarter of
// them. Revoked tasks and leases: MaxRevoked entries of about 100 bytes, each
// kept until the last token that it concerns has expired. If there are more,
// all entries are dropped, and instead every token issued before that moment is
// refused.
package verify
