package box

import "syscall"

// Code is the exit code of a command as a shell reports it: its own, or 128
// plus the number of the signal that ended it.
func Code(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
