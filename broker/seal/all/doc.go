// Package all is the table of the locations of the wrapping key.
//
//	all.go  the table, and New
package all
