// Package api serves the broker over HTTP: the OAuth endpoints (/oauth2 and
// /.well-known) and the JSON API (/v1). It makes no decision of its own.
//
// A request passes three steps. clientAuth verifies the caller's key once (a
// DPoP proof or a client certificate) and, at /v1, the access token. The handler
// decodes the form or the JSON body strictly: a size limit, one value per
// parameter, no unknown member. It then calls one method of the broker and
// encodes the result as a type of package wire.
//
// There is one file per noun: tasks.go, requests.go, leases.go and so on. Each
// holds the handlers, the interface with the methods of the broker that they
// call, and the conversions between the broker's types and the wire types.
// token.go and subject.go are the token endpoint. The route table is in api.go;
// a test compares it with openapi.yaml.
package api
