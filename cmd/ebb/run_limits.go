package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/cgroup"
)

// defaultPIDs is the default maximum number of processes and threads of a
// sandbox.
const defaultPIDs = 1024

// parseSize parses a size in bytes, with K, M, G or T for powers of 1024.
func parseSize(text string) (uint64, error) {
	number, unit := text, uint64(1)
	if i := strings.IndexAny("KMGT", text[max(len(text)-1, 0):]); text != "" && i >= 0 {
		number, unit = text[:len(text)-1], 1<<(10*(i+1))
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n == 0 || n > math.MaxInt64/unit {
		return 0, usage("--memory "+strconv.Quote(text)+" is not a size", "write it like --memory 4G, or 512M")
	}
	return n * unit, nil
}

// limits returns the limits of the flags and the default ones. asked: the
// command must not run without them.
func (flags *runFlags) limits() (l cgroup.Limits, asked bool, err error) {
	l = cgroup.Limits{Memory: mostMemory(), Processes: flags.pids}
	if flags.memory != "" {
		if l.Memory, err = parseSize(flags.memory); err != nil {
			return l, false, err
		}
	}
	if flags.cpus < 0 || flags.cpus > 0 && flags.cpus < 0.01 || flags.cpus > 1<<16 || math.IsNaN(flags.cpus) {
		return l, false, usage("--cpus must be 0, or a number from 0.01 to 65536", "write it like --cpus 2, or 0.5")
	}
	if flags.pids == 0 || flags.pids > 1<<22 {
		return l, false, usage("--pids must be a number from 1 to 4194304", "write it like --pids 256")
	}
	l.CPU = uint64(math.Round(flags.cpus * 1000))
	return l, flags.memory != "" || flags.cpus > 0, nil
}

// mostMemory is the default memory limit: three quarters of the machine's
// memory, 0 if that is unknown.
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

// confine creates a cgroup for the sandbox. If that fails, or a limit has no
// controller, it prints a notice, or returns an error if the user requested the
// limit.
func (c runCommand) confine(in *boxed) error {
	if in.plain {
		return nil
	}
	if in.image != "" { // the Docker daemon creates one
		in.spec.Limits.Memory, in.spec.Limits.CPU = in.limits.Memory, in.limits.CPU
		return nil
	}
	g, unbound, err := cgroup.Make(in.limits)
	switch {
	case err != nil && in.bounded:
		return fail("--memory and --cpus need a cgroup: "+err.Error(), "run ebb where it can create one: systemd-run --user --scope ebb run ..., or remove them")
	case err != nil:
		c.sayf("ebb: the sandbox has no cgroup of its own, so its memory and processor time are not limited: %s\n", err)
		return nil
	}
	in.group, in.spec.Cgroup = g, g.Dir()
	if err := os.WriteFile(filepath.Join(in.dir, groupFile), []byte(g.Path()), 0o600); err != nil {
		return fail(err.Error(), dirAdvice(in.dir))
	}
	unbound = slices.DeleteFunc(unbound, func(file string) bool { return file == "pids.max" }) // the shim limits the processes
	if len(unbound) > 0 && in.bounded {
		return fail("the cgroup controller is missing for "+strings.Join(unbound, " and "), "have systemd delegate memory and cpu to this user (for memory.swap.max: enable swap accounting with swapaccount=1, or disable swap), or remove --memory and --cpus")
	}
	if len(unbound) > 0 {
		c.sayf("ebb: the cgroup controller is missing for %s of the sandbox\n", strings.Join(unbound, " and "))
	}
	return nil
}
