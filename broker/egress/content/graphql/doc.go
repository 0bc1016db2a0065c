// Package graphql parses the body of a GraphQL request over HTTP (POST, application/json) into the
// fields that it executes, with the values of their arguments.
//
//	request.go   Read: the HTTP request, and the JSON of its body
//	lexer.go     tokens and strings (GraphQL specification, October 2021, section 2.1)
//	parser.go    executable documents (sections 2.2 to 2.8, and 2.10 to 2.12)
//	value.go     values (section 2.9)
//	document.go  Document: the operation that runs, with fragments and variables resolved
//
// The grammar is the executable part of the specification, without extensions. Where servers differ
// in practice, the request is refused: batches, persisted queries, duplicate or unknown members,
// directives other than @skip and @include, byte order marks, a carriage return alone.
//
// No schema is known here. A caller that knows one decides about the fields. Fields under @skip or
// @include count as executed.
package graphql
