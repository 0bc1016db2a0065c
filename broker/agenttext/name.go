package agenttext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name draws a name that the broker took from somebody it knows: in one line, with
// everything that hides, reorders or is a picture as its code, and nothing else
// changed. Unlike ShowLine it counts no runs and cuts nothing: ids and amounts have
// runs, and a name that is not whole is another name.
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
