// Package ec2 attests EC2 instances by the instance identity document, shortly after
// their launch and for one key.
//
//	config.go       Config, its check, and Decode for the configuration file
//	ec2.go          Attestor: Challenge, Attest, the launch window
//	evidence.go     what a caller shows
//	signed.go       the SignedData around the document, in the one form of EC2
//	certificates.go the certificates of AWS by region, and the signature
//	document.go     the document itself, and its selectors
//	registration.go CheckRegistration: what a runner must name
//
// # What it proves
//
// That AWS launched the named instance, in an account of the configuration, within
// the launch window; and that nobody has shown the document of this launch here with
// another key. It does not prove who asks: the document names no audience, no key
// and no end, and every process of the instance can read it from the metadata
// service, as can whoever makes one of them ask. So the class is bearer.
//
// First use is the pipeline's claim of ReplayID, which names the launch and not the
// document: AWS signs it anew, and each has many encodings. The claim holds past the
// end of the longest window, after which no attestor takes a document of that launch.
// The challenge binds the exchange to a key and to this minute, and nothing else.
//
// # Nothing is read before it is verified
//
// The signer is found by issuer and serial number, which is how CMS names one, among
// the configured certificates; one that came along is refused. What is signed is then
// read as JSON, and must name a region of that very certificate.
//
// AWS writes BER: six values around the content have indefinite lengths, all else is
// DER. Libraries for PKCS #7 turn BER of any kind into DER first, and take data after
// the end, tags that they misread and values longer than what they are in. This one
// reads one form. See docs/decisions/0033.
//
// # Sources
//
// docs.aws.amazon.com: AWSEC2/latest/UserGuide/instance-identity-documents.html and
// verify-iid.html; RFC 5652, section 5 (SignedData); RFC 6211 (algorithm protection);
// RFC 5754, section 3.2 (RSA with SHA-256); X.690, section 8.1.3.6 (indefinite lengths).
package ec2
