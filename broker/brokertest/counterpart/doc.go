// Package counterpart finds the real servers and programs that tests talk to. One
// that is missing skips its test with a text that names the variable to set, or
// fails it when EBB_TEST_REQUIRE, a list with commas between, has its name: what
// CI means to show cannot be left out in silence.
//
// It imports nothing of ebb, so that the tests of every package can use it.
//
//	counterpart.go  Need, Program, Missing
//	port.go         FreePort: where a server can be told to listen
//	talker.go       Talk: a program of Node that says things in lines of JSON
//	table.go        every counterpart, and the variable that names it; what tests ask
//	                of the machine
package counterpart
