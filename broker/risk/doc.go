// Package risk rates a request for credentials and gives the reasons. Its input is facts that the
// broker computed. The package is pure: it has no clock and no I/O, computes no numeric score, and
// reads no text of the agent.
//
//	risk.go   Facts, Level, Reason; Judge returns a level with its reasons
//	rules.go  the rules, as a table
//	title.go  TitleOf: the effect of scopes as a verb and a target
//	rows.go   Compare: the task's present permissions beside the requested ones
//
// A rule raises the level or leaves it; no rule lowers it. An unknown fact counts as the worse
// answer.
package risk
