// Package all is the table of the kinds of channels. To add a kind, add a folder beside
// this one and a line in all.go.
package all
