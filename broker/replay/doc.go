// Package replay shows the effect of a draft policy on past requests: it reads past decisions from
// the audit log and evaluates the draft for each.
//
//	read.go    Reader, and Read for an export: from entries to decisions
//	rebuild.go rebuilds the facts of a task, its sandbox and each decision from entries
//	compare.go Against: the draft's answer beside the recorded one; Comparison: summary of the
//	           draft's answers beside those of the set in force
//
// An entry records the result of a decision (granted, sent to approvers, denied) and the facts
// behind it. It does not repeat the query. For a denied or shortened request, the part that was
// not granted is therefore unknown. A draft that would grant more than the recorded part looks
// like no change; a grant never exceeds the request in any case (I4, I5).
package replay
