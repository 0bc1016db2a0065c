// Package nitro attests AWS Nitro Enclaves and EC2 instances with NitroTPM by the
// attestation document that the Nitro hypervisor signs for them.
//
// Attest verifies in the order of cost: the COSE_Sign1 envelope and its payload as
// strict CBOR, the certificates up to the pinned root, the signature, and the
// registers. The registers also tell whether the enclave runs in debug mode.
// CheckRegistration requires the selectors that a runner must name.
//
// # What it proves
//
// The hypervisor saw the named enclave or instance start with these registers, and
// software in it asked, after the challenge was made, for a document with this
// nonce. By default it must also have put the thumbprint of its key into user_data:
// many enclaves answer whatever nonce their host hands them, and the host's own
// key could then pass for the enclave's.
//
// It does not prove that the software in there does what it should, nor whose
// instance it is: whoever has the image starts it elsewhere with the same registers.
// Registrations must therefore name the instance or the enclave itself.
//
// # Sources
//
// docs.aws.amazon.com: enclaves/latest/user/verify-root.html and
// AWSEC2/latest/UserGuide/nitrotpm-attestation-document-validate.html; RFC 9052,
// sections 4.2 and 4.4 (COSE_Sign1); RFC 9053, section 2.1 (ES384); RFC 8949 (CBOR).
//
// The library is fxamacker/cbor and not veraison/go-cose on top of it: go-cose takes
// tags, any algorithm and any header, which would all have to be refused again, and
// what remains of COSE is one array and one signature.
package nitro
