// Package spiffe attests by SPIFFE Verifiable Identity Documents: a JWT-SVID that
// the caller sends, or an X.509-SVID that it showed as its TLS client certificate.
//
// The Attestor recognizes the document, checks that its SPIFFE ID has an accepted path,
// and verifies it with the bundle of its trust domain. A bundle comes from a file, from
// a bundle endpoint (profiles https_web and https_spiffe), or from the Workload API of
// a SPIFFE agent. Package jose verifies a JWT-SVID; go-spiffe validates the path of an
// X.509-SVID.
//
// # What it proves, and what not
//
// That an authority of a configured trust domain vouches for the SPIFFE ID, now.
// A JWT-SVID is a bearer: whoever reads it has it, and the pipeline binds it to
// the first key that uses it. An X.509-SVID is shown with a proof of its key. Both
// live until they expire, whatever happened to the workload or to its entry.
// A SPIFFE agent gives one and the same document to all workloads of an entry: an
// entry per sandbox is what makes a SPIFFE ID mean one sandbox.
//
// # No key confusion
//
// The trust domain in the document chooses the keys, and there is no other way to
// them: those of other trust domains are never tried, JWT-SVIDs are verified by
// keys of use jwt-svid alone and X.509-SVIDs by authorities of use x509-svid.
// Nothing in a document (iss, jku, x5u, a CRL or OCSP address) leads anywhere.
package spiffe
