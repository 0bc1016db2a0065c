package notify

import (
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

// Text makes a name or a short text safe to show: no character in it can hide, reorder or
// imitate other text. The result is one line of at most limit code points. A longer text
// loses its middle, because the beginning and the end distinguish paths.
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
