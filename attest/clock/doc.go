// Package clock tells the wall clock from the time that has surely passed. A wall
// clock that jumps ahead and comes back must end nothing and forget nothing: both
// are final, and the jump is not.
//
// A Clock compares the wall clock with the machine's monotonic clock; on Linux it also
// knows how long the machine was suspended. A Past knows which single-use values a
// memory has dropped.
package clock
