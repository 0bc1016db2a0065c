package egressbench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc/PID/stat: USER_HZ, which is 100
// on Linux (proc_pid_stat(5)).
const tick = 10 * time.Millisecond

// stat returns the fields of /proc/PID/stat from the third on. The second is
// the command name, which may contain any character.
func stat(pid int) ([]string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, fmt.Errorf("read processor time from /proc, which needs Linux: %w", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return nil, errors.New("/proc/PID/stat has fewer than 15 fields")
	}
	return fields, nil
}

// processorOf returns the processor time that processes have used on all cores,
// in user and kernel mode.
func processorOf(pids ...int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		fields, err := stat(pid)
		if err != nil {
			return 0, err
		}
		for _, f := range fields[11:13] { // utime, stime
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// residentOf returns the resident memory of a process in bytes.
func residentOf(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, errors.New("/proc/PID/statm has fewer than 2 fields")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// childrenOf returns the running child processes of a process.
func childrenOf(pid int) ([]int, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	var out []int
	for _, dir := range all {
		id, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if fields, err := stat(id); err == nil && fields[1] == strconv.Itoa(pid) {
			out = append(out, id)
		}
	}
	return out, err
}

// loadAverage returns the load average of the last minute, "" without /proc.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
