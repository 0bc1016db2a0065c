// Package tpm attests by a TPM 2.0: its endorsement key (EK) has a certificate of
// the maker, an attestation key (AK) lives in the same TPM, and the AK signs a
// quote of the PCRs over ebb's nonce.
//
// Attest verifies the path of the EK certificate to the configured authorities, the
// required properties of EK and AK, the quote and its signature, and the PCR values
// against the digest in the quote and the configuration. A registration must name one
// TPM only.
//
// # Two steps, nothing kept
//
// A quote alone says that some key signed it. So Challenge encrypts a secret to
// the EK, for the Name of the AK (MakeCredential, TPM 2.0 Part 1, 24): only the
// TPM that has the EK gives it out, and only when the AK of that Name is loaded
// beside it. The secret is derived from the nonce and both Names (attest.Nonces),
// so any replica recomputes it. Each piece of evidence proves all of it anew.
//
// # Structures
//
// Foreign bytes are read by hand and not by the library's reflection: what is
// accepted has exactly one encoding, lists are bounded, nothing trails. Of go-tpm
// the constants and the making of credentials are used.
package tpm
