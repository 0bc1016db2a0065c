package unixpeer

import (
	"errors"
	"strconv"
	"strings"
)

var errStat = errors.New("/proc/PID/stat is not as proc_pid_stat(5) says")

// parseStat reads the parent of a process and when it started, fields 4 and 22 of
// /proc/PID/stat; the latter in ticks since boot. Field 2 is the program's name in
// parentheses, which the process chooses and which may hold any byte: the last
// parenthesis ends it.
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

// parseInner reads the number that a process has in its own process namespace, the
// last of NSpid in /proc/PID/status (proc_pid_status(5)); 0 when there is none.
// Name, which the process chooses, comes before it and is on one line.
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

var errLink = errors.New("a link of a namespace is not as namespaces(7) says")

// parseLink reads the link of a namespace, net:[4026531840]: its inode.
func parseLink(kind, text string) (uint64, error) {
	rest, ok := strings.CutPrefix(text, kind+":[")
	digits, ok2 := strings.CutSuffix(rest, "]")
	if !ok || !ok2 || !decimal(digits) {
		return 0, errLink
	}
	return strconv.ParseUint(digits, 10, 64)
}

// parseMount finds where all of cgroup v2 is mounted in /proc/self/mountinfo
// (proc_pid_mountinfo(5)), "" when it is nowhere.
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
