// Package fetch is the one way that attestors reach another machine: key sets,
// trust bundles, token reviews.
//
// A Place is one origin and path that the configuration pins. A Cache keeps one value
// of a Place: the last good one, with back-off after a failure and one request for all
// callers. Values and PEM certificates can also come from a file. Client is for
// libraries that send their own requests.
//
// # What holds for every fetch
//
// Where it goes is configuration, never a claim or header of evidence: a Place is
// made from the operator's text alone, and takes from its caller no more than
// path segments, which it escapes, and a query. https, or http on a loopback
// address. No redirects. No cookies. Bounded in time and size. A host name that
// leads to a private, link-local or otherwise special address is refused unless
// configuration says that it may (an address written out in the URL says so by
// itself), so that the owner of a host name cannot point ebb at hosts in its own network.
// With a proxy in the environment (HTTPS_PROXY) the proxy decides that.
package fetch
