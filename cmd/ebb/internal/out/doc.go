// Package out prints what the CLI has to say, in the form that -o names. It is
// the only place that writes answers to a terminal, so that no text which came
// from a sandbox, a runner or a server can hide in one: tables and CSV draw
// every cell with agenttext, JSON is ASCII.
//
//	format.go  Format: table, json, csv; a flag value
//	list.go    Column, List: many things
//	one.go     One: one thing
//	json.go    JSON in ASCII
//	cell.go    values as cells: times in UTC, durations, lists
package out
