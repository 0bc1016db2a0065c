// Package notifytest is the test suite for every kind of channel.
//
//	suite.go     Suite, Run: what every Sender keeps to
//	hook.go      Hook: a sender to a chat of the test
//	messages.go  messages with every member filled
//	hostile.go   hostile names, and many of them
package notifytest
