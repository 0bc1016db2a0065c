// Package fetch is the one way that attestors reach another machine: key sets,
// trust bundles, token reviews.
//
//	place.go   Place: one origin and path that configuration pins, and how it may
//	           be asked
//	transport.go  the connections of one place
//	await.go   waiting for an answer that comes when there is news
//	dial.go    which addresses may be dialled
//	answer.go  Answer, and what its origin says of its age
//	file.go    the same from a file; certificates.go  files of PEM certificates
//	client.go  a client for libraries that ask by themselves
//	cache.go   Cache: one value with last good, back-off and one flight for all;
//	flight.go  the fetch itself
//
// # What holds for every fetch
//
// Where it goes is configuration, never a claim or header of evidence: a Place is
// made from the operator's text alone, and takes from its caller no more than
// path segments, which it escapes, and a query. https, or http on a loopback
// address. No redirects. No cookies. Bounded in time and size. A host name that
// leads to a private, link-local or otherwise special address is refused unless
// configuration says that it may (an address written out in the URL says so by
// itself), so that whoever controls a name cannot point ebb at its neighbours.
// With a proxy in the environment (HTTPS_PROXY) the proxy decides that.
package fetch
