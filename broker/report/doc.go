// Package report reads tasks, leases, requests and the audit log for people and runners, and
// computes the statistics pages. Each method checks the reader's role and the rows and members
// that the reader may see.
package report
