// Package risk says how bad a request is, and why, from facts that the broker
// computed. It is pure: no clock, no I/O, no numbers that stand for a feeling, and
// nothing that an agent wrote.
//
//	risk.go   Facts, Level, Reason; Judge: what is known to a level with reasons
//	rules.go  the rules, as a table
//	title.go  TitleOf: what scopes permit, in a verb and a target
//	rows.go   Compare: what a task can do now beside what it asks for
//
// A rule raises the level or leaves it; none lowers it. What is not known counts as
// the worse answer.
package risk
