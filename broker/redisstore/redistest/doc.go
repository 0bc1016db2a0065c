// Package redistest runs and manipulates Redis servers for tests.
//
//	server.go  Server: a redis-server of the test's own, to be killed or stopped
//	forget.go  Forget: the keys under a prefix at a shared one
package redistest
