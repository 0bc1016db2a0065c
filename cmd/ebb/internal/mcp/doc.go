// Package mcp offers ebb to MCP clients as tools (Model Context Protocol). It is a client
// of the API like any other: it acts as one sandbox, decides nothing, and returns
// identifiers, placeholders and addresses, never a secret.
//
//	service.go    Config, New, and the two transports: standard streams, HTTP
//	tools.go      the tools; schema.go  their input and output
//	arguments.go  parses the arguments, which are untrusted
//	request.go    request_credential and get_request
//	calls.go      counts the running calls, for a stop
//	desk.go       requests that wait for an approval, while clients come and go
//	outcome.go    the outcome of a request, without the credential
//	given.go      list_credentials, revoke_credential, complete_task
//	refusal.go    errors, each with the next step
//	http.go       access over HTTP: host, origin, token, size
package mcp
