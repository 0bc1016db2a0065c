// Package counterpart finds the real servers and programs that tests use. A missing
// counterpart skips its test with a text that names the variable to set. It fails the
// test when EBB_TEST_REQUIRE, a comma-separated list, contains its name: CI cannot leave
// out a required test unnoticed.
//
// It imports nothing of ebb, so that the tests of every package can use it.
//
//	counterpart.go  Need, Program, Missing
//	port.go         FreePort: where a server can be told to listen
//	fips.go         FIPSOnly: a test in a process with GODEBUG=fips140=only
//	talker.go       Talk: a Node program that writes lines of JSON
//	table.go        every counterpart and its variable; capabilities of the
//	                machine
package counterpart
