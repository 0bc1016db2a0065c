// Package ec2 attests EC2 instances by the instance identity document, shortly after
// their launch and for one key.
//
// The Attestor parses the SignedData around the document in the form that EC2 writes,
// verifies the signature with the certificate of AWS for the region, and then parses the
// document. CheckRegistration requires the selectors that identify one instance.
//
// # Guarantees
//
// AWS launched the named instance, in a configured account, within the launch window. No
// other key has attested with this launch at this ebb. The document does not prove which
// process sends it: it names no audience, no key and no expiry. Every process of the
// instance can read it from the metadata service, and so can an attacker with the means to make a
// process send requests. So the class is bearer.
//
// The pipeline lets only the first key use a launch, because ReplayID identifies the
// launch. It does not identify the document: AWS signs a new one on request, and each has
// many encodings. The claim lasts longer than the longest launch window, after which no
// attestor accepts a document of that launch. The challenge binds the exchange to a key
// and to this minute.
//
// # Order of verification
//
// The signer is identified by issuer and serial number, as CMS does (RFC 5652), among the
// configured certificates. A certificate in the evidence is refused. Only after the
// signature is verified is the signed content parsed as JSON. It must name a region of
// the signer's certificate.
//
// AWS writes BER: six values around the content have indefinite lengths, and the rest is
// DER. Libraries for PKCS #7 first convert any BER to DER. They accept data after the
// end, tags that they misread, and values longer than the value that contains them. This
// package parses only the form that AWS writes. See docs/decisions/0033.
//
// # Sources
//
// docs.aws.amazon.com: AWSEC2/latest/UserGuide/instance-identity-documents.html and
// verify-iid.html; RFC 5652, section 5 (SignedData); RFC 6211 (algorithm protection);
// RFC 5754, section 3.2 (RSA with SHA-256); X.690, section 8.1.3.6 (indefinite lengths).
package ec2
