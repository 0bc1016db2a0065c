// Package list is the part that all lists of the console share.
//
// A handler reads the address with ReadQuery (query.go), which refuses fields that the list does not
// know and keeps the others for the form. Query.Period (period.go) reads its time. Cursors.Place reads
// the position, and Cursors.Pager makes the links to the neighbouring pages (pager.go). Views.Bar has
// the filters that the visitor has saved (views.go). The same query can be exported as a file
// (export.go), and a script can ask for its newest rows (Tail). rows.go has the rows that several areas
// show: credentials, audit entries with their subjects, and the names of tasks.
package list
