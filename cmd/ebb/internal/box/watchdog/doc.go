// Package watchdog ends a box whose runner is gone, where the kernel does not, because the runner
// has not started it. The first process of the box would see it, but what is in the box may have
// stopped that one.
//
//	watchdog.go   Start: the process, as the runner holds it
//	run.go        Run: what that process does
//
// It is a process of the runner's user beside the box, in a session of its own, so that nothing in
// the box can reach it. It has the first process by a pidfd, which no other process takes over, and
// the end of a pipe whose other end only the runner has.
package watchdog
