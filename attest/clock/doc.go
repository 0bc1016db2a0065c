// Package clock tells the wall clock from the time that has surely passed. A wall
// clock that jumps ahead and comes back must end nothing and forget nothing: both
// are final, and the jump is not.
//
//	clock.go       Clock: the wall clock compared with the machine's monotonic clock
//	past.go        Past: which single-use values a memory has dropped
//	boot_linux.go  how long the machine was suspended; boot_other.go  elsewhere
package clock
