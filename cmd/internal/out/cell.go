package out

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Time formats t in UTC as RFC 3339, "" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
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
