// Package replay answers "what would have changed": it reads the decisions of
// the past from the record and lets a draft policy decide them again.
//
//	read.go    Reader, and Read of an export: entries into decisions
//	rebuild.go what the entries say about a task, its sandbox and each decision
//	replay.go  Against: the draft's answer beside the recorded one
//	compare.go Comparison: the draft's answers beside those of the set in force, in sum
//
// An entry records what was granted, asked of people or denied, and by which
// facts; it does not repeat the query. Two things can therefore not be known:
// what a denied or shortened request would have liked beyond what it got. A
// draft that would grant more than was asked then looks like no change, which
// is what a grant never exceeds anyway (I4, I5).
package replay
