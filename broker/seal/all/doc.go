// Package all lists the places where the wrapping key of sealing can live.
//
//	all.go  the table, and New
package all
