package cgroup

import (
	"fmt"
	"strconv"
)

// Limits of all that is in a group. A zero is none.
type Limits struct {
	Memory    uint64 // bytes
	CPU       uint64 // thousandths of a processor
	Processes uint64 // processes and threads
}

// period is over what time the kernel adds up processor time, in microseconds.
const period = 100_000

// swapFile bounds the swap of a group. A kernel that counts none has none (CONFIG_SWAP,
// swapaccount=0), which matters where there is swap.
const swapFile = "memory.swap.max"

// limit is a file of a group and what is written to it.
type limit struct{ file, text string }

func (l Limits) files() []limit {
	var all []limit
	if l.Memory > 0 {
		// Swap is no second memory beside it.
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
