// Package all is the table of kinds of package notify. Adding a kind is one folder beside
// this one and one line in all.go.
package all
