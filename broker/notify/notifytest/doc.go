// Package notifytest is the test suite for every kind of channel.
//
//	suite.go     Suite, Run: what every Sender keeps to
//	messages.go  messages with every member filled
//	hostile.go   hostile names, and many of them
package notifytest
