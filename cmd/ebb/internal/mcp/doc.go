// Package mcp offers ebb to MCP clients as tools (Model Context Protocol). It is a client
// of the API like any other: it acts as one sandbox, decides nothing, and answers with
// names, placeholders and addresses, never with a secret.
//
//	service.go    Config, New, and the two ways to be reached: standard streams, HTTP
//	tools.go      the tools; schema.go  what they take and answer
//	arguments.go  the one reader of arguments, which are foreign bytes
//	request.go    request_credential and get_request
//	calls.go      which calls are under way, for who has to stop
//	desk.go       questions that wait for a person, while clients come and go
//	outcome.go    what came of a question, without the credential
//	given.go      list_credentials, revoke_credential, complete_task
//	refusal.go    errors, each with what to do next
//	http.go       who may reach it over HTTP: host, origin, token, size
package mcp
