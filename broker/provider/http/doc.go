// Package http allows requests that need no credential, such as those to package registries and
// documentation sites. It adds nothing to a request, except a credential from an earlier response,
// which stays in ebb. With a lease of this kind, a sandbox may send a request without a placeholder if a
// scope covers the host, method and path. The egress proxy has checked that these have only one
// reading.
//
// A scope is <provider>:<host>/<path>:<action>. The host is a name. The path is a scope path, with
// * for one segment and ** for all below. Actions are read (GET, HEAD), write (POST, PUT, PATCH)
// and delete (DELETE).
package http
