// Package audit is the record that nobody can alter unseen: entries in one hash
// chain per process run, signed checkpoints over the heads of all chains, and a
// verifier that needs an export and the public keys and nothing else. It is
// pure: no clock, no store.
//
// The way of an entry:
//
//  1. kind.go        the closed table of what can happen
//  2. entry.go       the entry, its one encoding (RFC 8785 canonical JSON) and
//     the strict reader of it
//     canonical.go   the bytes: fastpath.go tells what is canonical already
//  3. chain.go       Sum, and Chain, which links an entry to the one before
//  4. checkpoint.go  Checkpoint and SignCheckpoint
//  5. kept.go        what is kept beside the record of an answer, and Answers, which
//     holds it against the record
//  6. verify.go      Verify streams an export; verifier.go proves it, line by line
//     signers.go     whose checkpoints count: keys that are given, and those that
//     the record names and a given key vouches for
//     filter.go      an export that leaves entries out says so, and proves no chain
//     span.go        the part of one chain that was read so far
//     report.go      what was proved, and Fault, what was not
//
// # What an export proves
//
// A chain alone proves that nobody changed, dropped or reordered a line without
// rewriting every later line of that writer. Rewriting is what checkpoints are
// against: a line at or before a checkpointed head cannot change without the
// signing key. Lines after the last checkpoint are only linked, and Report says
// how many those are. A checkpoint that an auditor keeps elsewhere can be added
// to any later export.
package audit
