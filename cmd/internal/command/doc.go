// Package command is the code that the programs ebb and ebb-bench share: exit
// codes, errors that name the next step, and the HTTP client of --ca-file.
//
//	fail.go  Exit, Failure, ExitOf, Explain, NextStep
//	choice.go Choice: a flag with a closed list of values
//	main.go  Report: prints the error of a command line and returns its exit code
//	tls.go   HTTPClient, TLSConfig
//	core.go  NoCore: no core files, because they could contain credentials
package command
