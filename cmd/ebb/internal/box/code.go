package box

import "syscall"

// Code is the exit code by which the end of a command is known to a shell: its own, or 128 and
// the number of the signal that it died of.
func Code(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
