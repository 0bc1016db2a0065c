// Package verify is for resource servers that accept ebb's access tokens. It
// checks them offline and follows ebb's revocation feed; it imports no package
// of the broker.
//
//	v, err := verify.New(verify.Config{...})
//	go v.Run(ctx)
//	http.Handle(v.MetadataPath(), v.Metadata())
//	http.Handle("/", v.Middleware(app))
//
// The path of one request through Verify, and the file of each step:
//
//	config.go    Config and New
//	bearer.go    one token, from the Authorization header and nowhere else
//	cache.go     tokens whose signature was checked before
//	token.go     RFC 9068: signature, issuer, audience, dates, required claims
//	possession.go  the key it is bound to: DPoP proof (RFC 9449) or client
//	             certificate (RFC 8705)
//	replay.go    every proof is good once
//	revoked.go   what is dead, and how old that knowledge is
//	verify.go    the order of these steps; scopes last
//	error.go     Error and the challenge (RFC 6750, RFC 9449, RFC 9728)
//	metadata.go  protected resource metadata (RFC 9728)
//	middleware.go, echo.go  the same for net/http and for echo
//
// What Run keeps up to date:
//
//	jwks.go      ebb's signing keys
//	follow.go    the loop that follows the feed
//	feed.go      Feed, and the one that asks ebb over HTTP
//
// # How long a revoked token can still pass
//
// The feed is a long poll, so an event usually arrives within a round trip. The
// stated bound is Config.MaxStaleness (10 s by default): when the last complete
// answer of the feed was asked for longer ago than that, or none has come since
// the start, every request is answered 503 with Retry-After. A token is thus
// refused at most MaxStaleness after ebb has acknowledged its end.
//
// # How much memory it takes
//
// Verified tokens: CacheSize entries of at most 8 KiB. Proofs: Replay entries of
// about 40 bytes, all gone two minutes later; one key may hold a quarter of them.
// Revoked tasks and leases: MaxRevoked entries of about 100 bytes, each kept
// until the last token it concerns has expired; when there are more, they are
// all dropped and every token issued before that moment is refused instead.
package verify
