// Package githubtest is a GitHub for tests: a server over TLS that keeps state,
// judges the App's JWT, cuts tokens down, lets them expire by the clock it is
// given, and has every request and answer checked against GitHub's published
// OpenAPI description.
//
//	server.go    Server: what it is made of, and how a test arranges it
//	serve.go     routes, and the frame of every answer: headers, limits, faults
//	app.go       who calls: JWTs of the App, as GitHub judges them
//	tokens.go    minting and revoking, both token formats
//	data.go      what tokens are for: repositories, issues, git
//	limits.go    primary and secondary rate limits
//	fault.go     Fault: hang, cut, fail before or after the deed, garbage
//	example.go   bodies that have all that a schema requires
//	openapi.go   the check against the description
//
// testdata holds the description, cut down, and the script that cuts it.
package githubtest
