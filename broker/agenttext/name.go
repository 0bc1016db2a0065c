package agenttext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name returns a name from a known party in one line. Characters that are invisible, reorder text
// or are pictures become their codes; all others stay. Unlike ShowLine it neither counts
// repetitions nor truncates: ids and amounts contain repetitions, and a truncated name is a
// different name.
func Name(name string) string {
	if plain(name) {
		return name
	}
	var b strings.Builder
	marks, base := 0, false
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		switch mark := unicode.Is(unicode.M, r); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `[\x%02X]`, name[i])
			base = false
		case !drawable(r), mark && (!base || marks == 2):
			fmt.Fprintf(&b, "[U+%04X]", r)
			base = false
		default:
			if marks++; !mark {
				marks, base = 0, unicode.In(r, unicode.L, unicode.N)
			}
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// CSVCell keeps a spreadsheet from taking cell for a formula: one that starts,
// after spaces, with = + - @ (or their full-width forms), TAB, CR or LF gets an
// apostrophe in front. It does not quote; encoding/csv does.
func CSVCell(cell string) string {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(cell, " "))
	if strings.ContainsRune("=+-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20", first) {
		return "'" + cell
	}
	return cell
}
