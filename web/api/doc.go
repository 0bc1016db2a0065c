// Package api serves the broker over HTTP: the OAuth endpoints (/oauth2,
// /.well-known) and the JSON API (/v1). Handlers decode the request, call one
// method of the broker, and encode the result. All decisions are made in the
// broker.
//
//	api.go         Config, New, Register: the route table
//	convert.go     conversion between the core's types and web/wire: helpers, and by noun
//	               convert_task.go convert_lease.go convert_request.go convert_policy.go
//	               convert_evidence.go convert_egress.go
//	form.go        the parser of application/x-www-form-urlencoded
//	params.go      the form parameters
//	authz.go       the parser of the Authorization header, and challenges
//	possession.go  DPoP proof and client certificate -> broker.Possession
//	client.go      client authentication at /oauth2: exactly one method
//	token.go       POST /oauth2/token: grant types -> broker calls; credentials.go
//	               client_credentials of a sandbox, a workload or a principal;
//	               token_answer.go the response of all grants
//	subject.go     parameters of a token request: subject, targets, rights
//	delegate.go    POST /oauth2/delegate; hold.go  POST /oauth2/hold; own.go  POST
//	               /oauth2/credentials
//	backchannel.go POST /oauth2/bc-authorize (CIBA poll mode)
//	introspect.go  RFC 7662; revoke.go  RFC 7009
//	metadata.go    RFC 8414, RFC 9728, RFC 7517 and the pages of problem types
//	v1.go          authentication at /v1; query.go query strings and pages of lists
//	tasks.go boxes.go connect.go enroll.go challenge.go attestors.go requests.go leases.go usage.go transcripts.go secrets.go
//	audit.go feed.go policy.go breakglass.go
//	               /v1, one file per noun; export.go the audit log as a file
//	signin.go      sign-in links to the console
//	ssh.go         public data for SSH hosts: CA keys and the revocation list
//	health.go      /livez, /readyz, /metrics
//	openapi.go     the document openapi.yaml, which a test compares with the routes
//
// testdata/judge tests the same API with independent client libraries. Its
// mcp.mjs tests ebb's MCP server.
package api
