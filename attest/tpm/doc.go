// Package tpm attests by a TPM 2.0. The endorsement key (EK) of the TPM has a certificate of
// the manufacturer. An attestation key (AK) in the same TPM signs a quote of the PCRs over
// ebb's nonce.
//
// Attest verifies the path of the EK certificate to the configured authorities, the
// required properties of EK and AK, the quote and its signature, and the PCR values
// against the digest in the quote and the configuration. A registration must match only one
// TPM.
//
// # Two steps, no stored state
//
// A quote alone proves only that some key signed it. So Challenge encrypts a secret to the
// EK, for the Name of the AK (MakeCredential, TPM 2.0 Part 1, 24). Only the TPM with that EK
// decrypts the secret, and only while the AK with that Name is loaded in it. The secret is
// derived from the nonce and both Names (attest.Nonces), so any replica can recompute it.
// Each piece of evidence proves all of this again.
//
// # Structures
//
// This package parses TPM structures itself and not with the reflection of go-tpm. It
// accepts exactly one encoding, bounded lists, and no trailing data. From go-tpm it uses the
// constants and MakeCredential.
package tpm
