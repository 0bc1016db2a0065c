package agenttext

import (
	"fmt"
	"slices"
	"strings"
)

// Code returns a text in a programming language as lines without shortened runs: 1111 stays 1111. As in
// Name, invisible characters, characters that reorder text and pictures become their codes. A tab
// becomes four spaces, and more than two empty lines in a row become one line with their number. The
// notes are those of Show, without NoteDrawn and NoteCut. A page shows the lines under a heading of
// ebb's own, each with a mark at its left.
func Code(u Untrusted) (lines []string, notes []Note) {
	raw := strings.ReplaceAll(strings.ReplaceAll(u.Raw(), "\r\n", "\n"), "\t", "    ")
	empty := 0
	end := func() {
		if empty > 2 {
			lines = append(lines, fmt.Sprintf("[U+000A x%d]", empty))
		} else {
			lines = append(lines, make([]string, empty)...)
		}
		empty = 0
	}
	for line := range strings.SplitSeq(raw, "\n") {
		if strings.Trim(line, " ") == "" {
			empty++
			continue
		}
		end()
		lines = append(lines, Name(line))
	}
	end()
	_, notes = draw(raw, 0, false)
	return lines, slices.DeleteFunc(notes, func(n Note) bool { return n.Kind == NoteDrawn || n.Kind == NoteCut })
}
