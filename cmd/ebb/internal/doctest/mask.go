package doctest

import (
	"regexp"
	"strings"
)

// masks replace values that differ in each run, in this order. The rest of a line must be the same in
// the page and in the output.
var masks = []struct {
	value *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(`\bebb_[a-z]+_[A-Za-z0-9_-]{20,}`), "SECRET"},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}(\.[A-Za-z0-9_-]*)*`), "JWT"},
	{regexp.MustCompile(`\b([a-z]{3})_[0-9a-f]{6,}(…|\b)`), "${1}_ID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|UTC|[+-]\d\d:\d\d)\b)?)?`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d(:\d\d(\.\d+)?)?\b`), "TIME"},
	{regexp.MustCompile(`(\b(sha256:)?[0-9a-f]{12,}\b)`), "DIGEST"},
	{regexp.MustCompile(`(127\.0\.0\.1|localhost|\[::1\]):(3[2-9]|[456]\d)\d{3}\b`), "${1}:PORT"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ns|us|µs|ms|s|m|h|d))+\b`), "DURATION"},
	{regexp.MustCompile(`\b(now|DURATION ago)(\)?)$`), "AGO${2}"},
	{regexp.MustCompile(`\b[A-Z]{3,}-\d\d\b`), "CODE"},
	{regexp.MustCompile(`─+`), "─"},
	{regexp.MustCompile(`[ \t]+`), " "}, // columns are as wide as their values
}

// Mask replaces the identifiers, tokens, digests, times, durations, match codes and ports that the
// system chose in a line, and each run of white space by one space.
func Mask(line string) string {
	for _, m := range masks {
		line = m.value.ReplaceAllString(line, m.with)
	}
	return strings.TrimRight(line, " \r")
}
