// Package notifytest is the suite that every kind of package notify passes.
//
//	suite.go     Suite, Run: what every Sender keeps to
//	messages.go  messages with every member filled
//	hostile.go   hostile names, and many of them
package notifytest
