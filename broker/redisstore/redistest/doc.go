// Package redistest is what tests do to a Redis that is not the broker's to do.
//
//	server.go  Server: a redis-server of the test's own, to be killed or stopped
//	forget.go  Forget: the keys under a prefix at a shared one
package redistest
