package agenttexttest

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

// Clean fails when a text that people see holds a character that hides, reorders, is a
// picture, or is none. Newlines are of ebb's own layout.
func Clean(t testing.TB, where, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: bytes that are no text: %q", where, text)
	}
	for _, r := range text {
		switch {
		case r == '\n' || r == ' ':
		case unicode.In(r, unicode.C, unicode.Z, unicode.So, unicode.Me, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point),
			!unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S):
			t.Errorf("%s: %U in %q", where, r, text)
			return
		}
	}
}

// ASCII fails when a text is not printable ASCII, newlines aside.
func ASCII(t testing.TB, where, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && (r < ' ' || r > '~') {
			t.Errorf("%s: %U in %q", where, r, text)
			return
		}
	}
}
