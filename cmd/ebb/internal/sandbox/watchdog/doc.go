// Package watchdog kills a sandbox whose runner has ended, where the kernel
// does not do so because the runner did not start it. The first process of the
// sandbox also watches the runner, but a process in the sandbox may have
// stopped it.
//
//	watchdog.go   Start: the watchdog process, as the runner controls it
//	run.go        Run: the main function of that process
//
// The watchdog is a process of the runner's user outside of the sandbox, in a
// session of its own, so that no process in the sandbox can reach it. It has a
// pidfd of the first process, which cannot come to mean another process, and
// the read end of a pipe whose write end only the runner has.
package watchdog
