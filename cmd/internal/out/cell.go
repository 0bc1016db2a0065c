package out

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// Time formats t in UTC as RFC 3339, "" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Relative formats t as its distance from now, rounded down: in 12m, 3h ago.
func Relative(t, now time.Time) string {
	d := t.Sub(now)
	switch size := span(d.Abs()); {
	case size == "0s":
		return "now"
	case d > 0:
		return "in " + size
	default:
		return size + " ago"
	}
}

// span formats a duration in its largest unit, rounded down.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 2*day:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/day)) + "d"
}

// Seconds formats a number of seconds as a duration such as 15m or 1h30m, "" for 0.
func Seconds(n int64) string {
	if n == 0 {
		return ""
	}
	text := (time.Duration(n) * time.Second).String()
	if short, is := strings.CutSuffix(text, "m0s"); is {
		text = short + "m"
	}
	if short, is := strings.CutSuffix(text, "h0m"); is {
		text = short + "h"
	}
	return text
}

// Int formats n, "" for 0.
func Int[N ~int | ~int64](n N) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// Pairs formats the entries of m as k=v, sorted.
func Pairs(m map[string]string) string {
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, " ")
}

// idForm is the form of ids: a prefix and a UUIDv7, whose first twelve digits
// are its time in milliseconds.
var idForm = lazyregexp.New(`^[a-z]{3}_[0-9a-f]{32}$`)

// shortID is the least length of a shortened id: the prefix and the time.
const shortID = 4 + 12

// idLength returns the least length at which prefixes of ids differ.
func idLength(ids []string) int {
	n := shortID
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for i := 1; i < len(ids); i++ {
		before, id := ids[i-1], ids[i]
		same := 0
		for same < min(len(id), len(before)) && id[same] == before[same] {
			same++
		}
		n = max(n, same+1)
	}
	return n
}

// Count returns a number with its noun: "1 policy", "2 policies".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
