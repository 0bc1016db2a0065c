package cgroup

import (
	"fmt"
	"strconv"
)

// Limits bound all processes of a group together. A zero is no limit.
type Limits struct {
	Memory    uint64 // bytes
	CPU       uint64 // thousandths of a processor
	Processes uint64 // processes and threads
}

// period is the period of the processor time limit, in microseconds.
const period = 100_000

// swapFile is the file of the swap limit of a group. It is missing if the
// kernel does not account for swap (CONFIG_SWAP, swapaccount=0), which matters
// only on a machine with swap.
const swapFile = "memory.swap.max"

// limit is a file of a group and the text to write to it.
type limit struct{ file, text string }

func (l Limits) files() []limit {
	var all []limit
	if l.Memory > 0 {
		// Swap must not extend the memory limit.
		all = append(all, limit{"memory.max", strconv.FormatUint(l.Memory, 10)}, limit{swapFile, "0"})
	}
	if l.CPU > 0 {
		all = append(all, limit{"cpu.max", fmt.Sprintf("%d %d", l.CPU*period/1000, period)})
	}
	if l.Processes > 0 {
		all = append(all, limit{"pids.max", strconv.FormatUint(l.Processes, 10)})
	}
	return all
}
