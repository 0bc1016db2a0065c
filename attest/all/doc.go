// Package all is the table of the kinds of attestors. To add a kind: one folder
// beside this one, and one line in the table (all.go).
package all
