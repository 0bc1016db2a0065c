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

// limit is a file of a group and what is written to it. One that is optional may be missing.
type limit struct {
	file, text string
	optional   bool
}

func (l Limits) files() []limit {
	var all []limit
	if l.Memory > 0 {
		// Swap is no second memory beside it. A kernel that counts none has no file for it.
		all = append(all, limit{file: "memory.max", text: strconv.FormatUint(l.Memory, 10)}, limit{file: "memory.swap.max", text: "0", optional: true})
	}
	if l.CPU > 0 {
		all = append(all, limit{file: "cpu.max", text: fmt.Sprintf("%d %d", l.CPU*period/1000, period)})
	}
	if l.Processes > 0 {
		all = append(all, limit{file: "pids.max", text: strconv.FormatUint(l.Processes, 10)})
	}
	return all
}
