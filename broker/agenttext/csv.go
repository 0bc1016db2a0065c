package agenttext

import (
	"strings"
	"unicode/utf8"
)

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
