// Package audit is the tamper-evident audit log: entries in one hash chain for each process run,
// signed checkpoints over the heads of all chains, and a verifier that needs only an export and
// the public keys. The package is pure: it has no clock and no store.
//
// The steps of an entry:
//
//  1. Its kind is one of a closed list.
//  2. Entry has one encoding, canonical JSON (RFC 8785), and a strict reader. Data that is canonical
//     already is recognized without encoding it again.
//  3. Chain links an entry to its predecessor by Sum.
//  4. SignCheckpoint signs the heads of all chains.
//  5. A text can be stored beside the log for an answer; Answers checks it against the log.
//  6. Verify reads an export as a stream and proves it line by line. It accepts the given keys, and
//     keys in the log that a given key covers. An export that leaves entries out states so, and
//     proves no chain, unless it is an inclusion proof (proof.go, proof_verify.go). Report is the result; Fault is the first line that failed.
//
// # What an export proves
//
// A hash chain alone shows that a line was changed, dropped or reordered, unless the attacker
// rewrites every later line of that writer. Checkpoints prevent the rewriting: a line at or before
// a checkpointed head cannot change without the signing key. Lines after the last checkpoint are
// only linked, and Report counts them. An auditor can keep a checkpoint elsewhere and add it to
// any later export.
package audit
