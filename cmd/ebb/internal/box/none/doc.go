// Package none runs a command as a plain child process: no box. Who asks for it says that
// something else confines the command, or that nothing needs to.
//
//	none.go   Kind
package none
