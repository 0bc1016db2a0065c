// Package clock distinguishes the wall clock from the time that has certainly passed. When a
// wall clock jumps ahead and returns, no credential may expire and no single-use value may
// be forgotten: both are final, and the jump is not.
//
// A Clock compares the wall clock with the machine's monotonic clock. On Linux it also knows
// how long the machine was suspended. A Past records which single-use values a memory has
// dropped.
package clock
