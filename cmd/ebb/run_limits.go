package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ebb/cmd/ebb/internal/box/cgroup"
)

// defaultPIDs is how many processes and threads a box has if nobody says otherwise.
const defaultPIDs = 1024

// parseSize reads bytes, with K, M, G or T for powers of 1024.
func parseSize(text string) (uint64, error) {
	number, unit := text, uint64(1)
	if i := strings.IndexAny("KMGT", text[max(len(text)-1, 0):]); text != "" && i >= 0 {
		number, unit = text[:len(text)-1], 1<<(10*(i+1))
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n == 0 || n > math.MaxInt64/unit {
		return 0, usage("--memory "+strconv.Quote(text)+" is no size", "write it like --memory 4G, or 512M")
	}
	return n * unit, nil
}

// limits are what the flags ask for, with what is bounded anyway. asked: nothing runs without them.
func (flags *runFlags) limits() (l cgroup.Limits, asked bool, err error) {
	l = cgroup.Limits{Memory: mostMemory(), Processes: flags.pids}
	if flags.memory != "" {
		if l.Memory, err = parseSize(flags.memory); err != nil {
			return l, false, err
		}
	}
	if flags.cpus < 0 || flags.cpus > 0 && flags.cpus < 0.01 || flags.cpus > 1<<16 || math.IsNaN(flags.cpus) {
		return l, false, usage("--cpus is no number of processors", "write it like --cpus 2, or 0.5")
	}
	if flags.pids == 0 || flags.pids > 1<<22 {
		return l, false, usage("--pids is no number of processes", "write it like --pids 256")
	}
	l.CPU = uint64(math.Round(flags.cpus * 1000))
	return l, flags.memory != "" || flags.cpus > 0, nil
}

// mostMemory is what a box has if nobody says otherwise: three quarters of the machine's memory.
// 0 = that is not known.
func mostMemory() uint64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseUint(f[1], 10, 40)
			return kib * 1024 / 4 * 3
		}
	}
	return 0
}

// confine gives the box a cgroup of its own. Where that cannot be, or a bound has no controller, it
// is said, and without what was asked for there is no box.
func (c *cli) confine(in *boxed) error {
	if in.plain {
		return nil
	}
	if in.image != "" { // its daemon makes one, or there is no box
		in.spec.Limits.Memory, in.spec.Limits.CPU = in.limits.Memory, in.limits.CPU
		return nil
	}
	g, unbound, err := cgroup.Make(in.limits)
	switch {
	case err != nil && in.bounded:
		return fail("--memory and --cpus need a cgroup: "+err.Error(), "run ebb where it may make one: systemd-run --user --scope ebb run ..., or leave them out")
	case err != nil:
		c.sayf("ebb: the box has no cgroup of its own, its memory and processor time are not bounded: %s\n", err)
		return nil
	}
	in.group, in.spec.Cgroup = g, g.Dir()
	if err := os.WriteFile(filepath.Join(in.dir, groupFile), []byte(g.Path()), 0o600); err != nil {
		return fail(err.Error(), dirAdvice(in.dir))
	}
	unbound = slices.DeleteFunc(unbound, func(file string) bool { return file == "pids.max" }) // the box's first process bounds those
	if len(unbound) > 0 && in.bounded {
		return fail("there is no cgroup controller here for "+strings.Join(unbound, " and "), "have systemd delegate memory and cpu to this user (for memory.swap.max: have the kernel count swap, swapaccount=1, or switch swap off), or leave out --memory and --cpus")
	}
	if len(unbound) > 0 {
		c.sayf("ebb: there is no cgroup controller here for %s of the box\n", strings.Join(unbound, " and "))
	}
	return nil
}
