// Package auditlog shows and exports the audit log on the console.
//
// list.go lists the entries by a filter and exports them. entry.go shows one entry byte for byte,
// and the chains of entries with their checkpoints, which it verifies on request. Other areas show
// entries on their pages with package list. pages.go lists the routes and the calls of the core.
package auditlog
