// Package redistest runs and manipulates Redis servers for tests.
//
// Server is a redis-server of the test's own, to be killed or stopped. Forget removes
// the keys under a prefix at a shared server.
package redistest
