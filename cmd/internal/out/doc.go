// Package out prints the results of commands in the format of -o. No other code prints
// results to a terminal, so that text of a sandbox, a runner or a server cannot hide
// control characters in one: cells of tables and CSV are escaped with agenttext, JSON
// is ASCII.
//
//	format.go  Format: table, wide, json, csv; a flag value
//	column.go  Column, and how a table shortens it
//	list.go    List: several items
//	one.go     One: one item
//	grid.go    a table that fits Width cells
//	width.go   widths of text in terminal cells; cutting and wrapping
//	row.go     Row: one event of a stream
//	json.go    JSON in ASCII
//	cell.go    values as cells: times, numbers, pairs, short ids
package out
