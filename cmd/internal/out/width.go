package out

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Width is the maximum width of a table in cells of a terminal.
const Width = 100

// ellipsis takes the place of the text that was cut.
const ellipsis = "…"

// runeCells returns the number of terminal cells of a drawn character.
func runeCells(r rune) int {
	switch {
	case r < 0x7f:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

func cells(text string) int {
	n := 0
	for _, r := range text {
		n += runeCells(r)
	}
	return n
}

// head returns the longest beginning of text of at most n cells.
func head(text string, n int) string {
	for i, r := range text {
		if n -= runeCells(r); n < 0 {
			return text[:i]
		}
	}
	return text
}

// tail returns the longest end of text of at most n cells. It does not begin
// with a mark of a character that was cut.
func tail(text string, n int) string {
	runes := []rune(text)
	i := len(runes)
	for i > 0 && runeCells(runes[i-1]) <= n {
		i--
		n -= runeCells(runes[i])
	}
	for i > 0 && i < len(runes) && runeCells(runes[i]) == 0 {
		i++
	}
	return string(runes[i:])
}

// cut shortens text to n cells at its end, or in its middle.
func cut(text string, n int, middle bool) string {
	switch {
	case cells(text) <= n:
		return text
	case n < 1:
		return ""
	case middle:
		back := (n - 1) / 2
		return head(text, n-1-back) + ellipsis + tail(text, back)
	}
	return head(text, n-1) + ellipsis
}

// Pieces cuts drawn text into pieces of at most n cells, without a change of its spaces.
func Pieces(text string, n int) []string {
	n = max(n, 2) // the cells of the widest character
	out := []string{}
	for cells(text) > n {
		piece := head(text, n)
		out, text = append(out, piece), text[len(piece):]
	}
	return append(out, text)
}

// Wrap breaks drawn text into lines of at most n cells: at spaces, and inside
// words that are longer than a line.
func Wrap(text string, n int) []string {
	n = max(n, 2) // the cells of the widest character
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && cells(line)+1+cells(word) <= n {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for cells(word) > n {
			part := head(word, n)
			lines = append(lines, part)
			word = word[len(part):]
		}
		line = word
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}
