// Package audit is the tamper-evident audit log: entries in one hash chain for each process run,
// signed checkpoints over the heads of all chains, and a verifier that needs only an export and
// the public keys. The package is pure: it has no clock and no store.
//
// The steps of an entry:
//
//  1. kind.go        the closed list of kinds
//  2. entry.go       Entry, its one encoding (RFC 8785 canonical JSON) and its strict reader
//     canonical.go   the encoder; fastpath.go recognizes data that is canonical already
//  3. chain.go       Sum, and Chain, which links an entry to its predecessor
//  4. checkpoint.go  Checkpoint and SignCheckpoint
//  5. kept.go        texts stored beside the log for an answer; Answers checks them against it
//  6. verify.go      Verify reads an export as a stream; verifier.go proves it line by line and
//     holds the range of each chain that was read so far
//     signers.go     the accepted keys: given keys, and keys in the log that a given key covers
//     filter.go      an export that leaves entries out states so, and proves no chain
//     report.go      Report, the result, and Fault, the first failed line
//
// # What an export proves
//
// A hash chain alone shows that a line was changed, dropped or reordered, unless the attacker
// rewrites every later line of that writer. Checkpoints prevent the rewriting: a line at or before
// a checkpointed head cannot change without the signing key. Lines after the last checkpoint are
// only linked, and Report counts them. An auditor can keep a checkpoint elsewhere and add it to
// any later export.
package audit
