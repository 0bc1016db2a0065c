package unixpeer

import (
	"errors"
	"strconv"
	"strings"
)

var errStat = errors.New("/proc/PID/stat does not have the format of proc_pid_stat(5)")

// parseStat returns the parent of a process (field 4 of /proc/PID/stat) and its start
// time in ticks since boot (field 22). Field 2 is the program's name in parentheses.
// The process chooses it, and it may contain any byte, so the last parenthesis of the
// file ends it.
func parseStat(text string) (parent int, start uint64, err error) {
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return 0, 0, errStat
	}
	fields := strings.Fields(text[end+1:]) // from field 3 on
	if len(fields) < 20 {
		return 0, 0, errStat
	}
	ppid, err := strconv.ParseUint(fields[1], 10, 31)
	start, err2 := strconv.ParseUint(fields[19], 10, 64)
	if err != nil || err2 != nil {
		return 0, 0, errStat
	}
	return int(ppid), start, nil
}

// parseInner returns the PID of a process in its own process namespace: the last number
// of NSpid in /proc/PID/status (proc_pid_status(5)), 0 when it is absent. The process
// chooses the value of Name, which comes before NSpid, but it cannot span lines.
func parseInner(text string) int {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "NSpid:\t")
		if !ok {
			continue
		}
		numbers := strings.Split(strings.TrimSuffix(rest, "\n"), "\t")
		n, err := strconv.ParseUint(numbers[len(numbers)-1], 10, 31)
		if err != nil {
			return 0
		}
		return int(n)
	}
	return 0
}

var errLink = errors.New("a namespace link in /proc/PID/ns does not have the format of namespaces(7)")

// parseLink returns the inode in the link of a namespace, such as net:[4026531840].
func parseLink(kind, text string) (uint64, error) {
	rest, ok := strings.CutPrefix(text, kind+":[")
	digits, ok2 := strings.CutSuffix(rest, "]")
	if !ok || !ok2 || !decimal(digits) {
		return 0, errLink
	}
	return strconv.ParseUint(digits, 10, 64)
}

// parseMount returns the mount point of the root of cgroup v2 from /proc/self/mountinfo
// (proc_pid_mountinfo(5)), "" when it is not mounted.
func parseMount(text string) string {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if ok && len(fields) >= 6 && len(kind) >= 1 && kind[0] == "cgroup2" && fields[3] == "/" && !strings.Contains(fields[4], `\`) {
			return fields[4]
		}
	}
	return ""
}
