// Package spiffe attests by SPIFFE Verifiable Identity Documents: a JWT-SVID that the caller
// sends, or an X.509-SVID that it uses as its TLS client certificate.
//
// The Attestor recognizes the document, checks that its SPIFFE ID has an accepted path,
// and verifies it with the bundle of its trust domain. A bundle comes from a file, from
// a bundle endpoint (profiles https_web and https_spiffe), or from the Workload API of
// a SPIFFE agent. Package jose verifies a JWT-SVID; go-spiffe validates the path of an
// X.509-SVID.
//
// # Guarantees
//
// An authority of a configured trust domain currently attests the SPIFFE ID. A JWT-SVID is a
// bearer token: any process that can read it can use it, and the pipeline binds it to the
// first key that uses it. TLS proves possession of the key of an X.509-SVID. Both are valid
// until they expire, even when the workload or its entry has been removed. A SPIFFE agent
// gives the same document to all workloads of an entry, so a SPIFFE ID identifies one
// sandbox only when each sandbox has an entry of its own.
//
// # No key confusion
//
// Only the trust domain in the document selects the keys; keys of other trust domains are
// never tried. JWT-SVIDs are verified only with keys of use jwt-svid, X.509-SVIDs only with
// authorities of use x509-svid. No address in a document (iss, jku, x5u, a CRL or OCSP
// address) causes a connection.
package spiffe
