// Package none runs a command as a plain child process without isolation, for a
// user who isolates the command by other means or trusts it.
//
//	none.go   Kind
package none
