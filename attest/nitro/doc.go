// Package nitro attests AWS Nitro Enclaves and EC2 instances with NitroTPM by the
// attestation document that the Nitro hypervisor signs for them.
//
// Attest verifies in the order of cost: the COSE_Sign1 envelope and its payload as strict
// CBOR, the certificates up to the pinned root, the signature, and the registers. The
// registers also show whether the enclave runs in debug mode. CheckRegistration requires the
// selectors that identify one enclave or instance.
//
// # Guarantees
//
// The hypervisor saw the named enclave or instance start with these registers. Software in
// it requested a document with this nonce after the challenge was made. By default that
// software must also have put the thumbprint of its key into user_data. Many enclaves
// request a document for any nonce that their host sends, and the host could then present
// its own key as the enclave's.
//
// The document does not prove that the software is correct, nor which account owns the
// instance: an attacker with the image can start it on another instance with the same
// registers. Registrations must therefore name the instance or the enclave.
//
// # Sources
//
// docs.aws.amazon.com: enclaves/latest/user/verify-root.html and
// AWSEC2/latest/UserGuide/nitrotpm-attestation-document-validate.html; RFC 9052,
// sections 4.2 and 4.4 (COSE_Sign1); RFC 9053, section 2.1 (ES384); RFC 8949 (CBOR).
//
// The package uses fxamacker/cbor without veraison/go-cose. go-cose accepts tags, any
// algorithm and any header, which this package would have to refuse again. The rest of COSE
// is one array and one signature.
package nitro
