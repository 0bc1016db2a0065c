// Package all is the table of the kinds of attestors (all.go). A new kind is one folder
// beside this one and one line in the table.
package all
