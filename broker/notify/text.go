package notify

import (
	"unicode/utf8"

	"ebb/broker/agenttext"
)

// Text draws a name or a short text so that nothing in it can hide, reorder or pass for
// more than text, in one line of at most limit code points. One that is longer loses its
// middle: what a path begins and ends with is what tells it from others.
func Text(s string, limit int) string {
	out := agenttext.Name(s)
	n := utf8.RuneCountInString(out)
	if n <= limit {
		return out
	}
	const gap = " ... "
	keep := max(limit-len(gap), 2)
	runes := []rune(out)
	return string(runes[:keep/2]) + gap + string(runes[n-(keep-keep/2):])
}
