// Package api is the wire of the broker: OAuth endpoints (/oauth2, /.well-known)
// and the JSON API (/v1). Handlers decode, call one method of the broker, and
// encode; nothing is decided here.
//
//	api.go         Config, New, Register: the route table
//	form.go        the one parser of application/x-www-form-urlencoded
//	params.go      the parameters it knows
//	authz.go       the one parser of the Authorization header, and challenges
//	possession.go  DPoP proof and client certificate -> broker.Possession
//	client.go      client authentication at /oauth2: exactly one method
//	token.go       POST /oauth2/token: grant types -> broker calls; credentials.go
//	               the one whose caller is a sandbox, a workload or a principal;
//	               token_answer.go what all of them answer
//	subject.go     what a token request names: subject, targets, rights
//	delegate.go    POST /oauth2/delegate; hold.go  POST /oauth2/hold; own.go  POST
//	               /oauth2/credentials
//	backchannel.go POST /oauth2/bc-authorize (CIBA poll mode)
//	introspect.go  RFC 7662; revoke.go  RFC 7009
//	metadata.go    RFC 8414, RFC 9728, RFC 7517 and the pages of problem types
//	v1.go          who calls /v1; query.go its query strings and pages
//	tasks.go boxes.go connect.go enroll.go challenge.go attestors.go requests.go leases.go usage.go transcripts.go secrets.go
//	audit.go feed.go policy.go breakglass.go
//	               /v1, one file per noun; export.go the record as a file
//	signin.go      a link into the console
//	ssh.go         what SSH hosts fetch: CA keys and the revocation list
//	health.go      /livez, /readyz, /metrics
//	openapi.go     the document openapi.yaml, served and compared with the routes
//
// testdata/judge holds the same conversations held by independent clients.
package api
