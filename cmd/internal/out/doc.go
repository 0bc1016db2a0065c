// Package out prints the results of commands in the format of -o. No other code prints
// results to a terminal, so that text of a sandbox, a runner or a server cannot hide
// control characters in one: cells of tables and CSV are escaped with agenttext, JSON
// is ASCII.
//
//	format.go  Format: table, json, csv; a flag value
//	list.go    Column, List: several items
//	one.go     One: one item
//	json.go    JSON in ASCII
//	cell.go    values as cells: times in UTC, numbers, pairs
package out
