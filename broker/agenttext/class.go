package agenttext

import "unicode"

// drawable reports whether r is shown as itself. It is an allowlist: a code point that this
// Unicode version does not define is not drawable.
func drawable(r rune) bool {
	switch {
	case r < 0x7f:
		return r >= 0x20
	case r >= 0x1F000 && r <= 0x1FAFF: // pictures: locks, shields, ticks, and their skin tones
		return false
	case r == 0x221A: // the square root is the one mathematical sign that passes for a tick
		return false
	case unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return false // includes U+034F, Hangul fillers, Khmer inherent vowels
	case unicode.Is(unicode.Me, r): // an enclosing mark turns its neighbour into a badge
		return false
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.Sm, unicode.Sc, unicode.Sk)
}

// hidden reports whether r, which is not drawable, is invisible to a reader. Other characters that
// are not drawable are symbols.
func hidden(r rune) bool {
	return !unicode.In(r, unicode.So, unicode.Sm, unicode.Sk, unicode.Me) || r == 0x2800 || r >= 0xFFFC && r <= 0xFFFD
}

// styled reports letters and digits that imitate plain ones in another shape.
func styled(r rune) bool {
	return r >= 0x1D400 && r <= 0x1D7FF || // mathematical alphanumerics
		r >= 0xFF10 && r <= 0xFF5A || // full-width
		r >= 0x2100 && r <= 0x214F // letter-like
}

// wordRune reports whether r belongs to a name a reader takes in at one glance:
// a word, a host, a path segment.
func wordRune(r rune) bool {
	return r == '.' || r == '-' || r == '_' || r == '@' || unicode.In(r, unicode.L, unicode.M, unicode.N)
}

// script names the script of r, or "" when r fits every script. The scripts
// that East Asian text mixes as a matter of course count as one.
func script(r rune) string {
	switch {
	case r < 0x80:
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return "Latin"
		}
		return ""
	case styled(r):
		return "styled"
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul):
		return "East Asian"
	case unicode.In(r, unicode.Common, unicode.Inherited):
		return ""
	case unicode.Is(unicode.Latin, r):
		return "Latin"
	case unicode.Is(unicode.Cyrillic, r):
		return "Cyrillic"
	case unicode.Is(unicode.Greek, r):
		return "Greek"
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return "unknown"
}
