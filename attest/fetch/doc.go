// Package fetch sends all requests of attestors to other machines: for key sets, trust
// bundles and token reviews.
//
// A Place is one origin and path that the configuration names. A Cache has one value of a
// Place: the last good one, with back-off after a failure and one request for all callers.
// Values and PEM certificates can also come from a file. NewClient is for libraries that
// send their own requests.
//
// # Rules for every request
//
// The destination comes from configuration, never from a claim or header of evidence. A
// Place is made from the operator's text alone. Its callers can only add path segments,
// which it escapes, and a query. The scheme is https, or http on a loopback address. There
// are no redirects and no cookies. Time and size are bounded. The rest of ebb applies the
// same rule for plain http through Secure and Loopback.
//
// A host name that resolves to a private, link-local or otherwise special address is refused
// unless the configuration allows it, so that the owner of a name cannot direct ebb at hosts
// of its own network. An IP address in the configured URL is allowed without that setting.
// With a proxy in the environment (HTTPS_PROXY) the proxy chooses the address.
package fetch
