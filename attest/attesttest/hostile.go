package attesttest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/ebb-broker/ebb/attest"
)

// hostile returns invalid documents derived from a valid one, by name. For a kind that
// judges only the channel, whose valid document is empty, it returns non-empty ones.
func hostile(good []byte) map[string][]byte {
	if len(good) == 0 {
		out := hostile([]byte("."))
		maps.DeleteFunc(out, func(_ string, doc []byte) bool { return len(doc) == 0 })
		return out
	}
	half := len(good) / 2
	out := map[string][]byte{
		"nil":                nil,
		"empty":              {},
		"NUL":                {0},
		"blank":              []byte(" "),
		"garbage":            []byte("garbage"),
		"dots":               []byte(".."),
		"braces":             []byte("{}"),
		"not UTF-8":          []byte("\xff\xfe.\xff.\xff"),
		"first half":         good[:half],
		"last half":          good[half:],
		"without last byte":  good[:len(good)-1],
		"twice":              slices.Concat(good, good),
		"comma list":         slices.Concat(good, []byte(","), good),
		"leading blank":      slices.Concat([]byte(" "), good),
		"trailing newline":   slices.Concat(good, []byte("\n")),
		"trailing NUL":       slices.Concat(good, []byte{0}),
		"padding":            slices.Concat(good, []byte("=")),
		"Bearer":             slices.Concat([]byte("Bearer "), good),
		"upper case":         bytes.ToUpper(good),
		"deep nesting":       bytes.Repeat([]byte("["), 10_000),
		"oversized by one":   slices.Concat(good, bytes.Repeat([]byte("A"), attest.MaxDocument+1-len(good))),
		"oversized, 1 MiB":   bytes.Repeat([]byte("A"), 1<<20),
		"oversized, dots":    bytes.Repeat([]byte("."), 1<<20),
		"oversized, newline": slices.Concat(good, bytes.Repeat([]byte("\n"), 1<<20)),
	}
	// One changed byte at 64 places. Each changed byte is in the base64url alphabet, so
	// that the kind has to check the content and not only the encoding.
	for i := range 64 {
		at := i * (len(good) - 1) / 63
		doc := slices.Clone(good)
		if doc[at] == 'A' {
			doc[at] = 'Q'
		} else {
			doc[at] = 'A'
		}
		out[fmt.Sprintf("byte %d changed", at)] = doc
	}
	return out
}
