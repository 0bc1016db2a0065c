package agenttext_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

func TestName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                 "",
		"lse_000000000000":                 "lse_000000000000",
		strings.Repeat("a/", 150):          strings.Repeat("a/", 150),
		"Zo\u00eb \u05d0\u05d1":            "Zo\u00eb \u05d0\u05d1",
		"e\u0301\u0301\u0301":              "e\u0301\u0301[U+0301]",
		"\u0301x":                          "[U+0301]x",
		"a\u202eb\u200b\u200b":             "a[U+202E]b[U+200B][U+200B]",
		"a\r\n\tb\x7f":                     "a[U+000D][U+000A][U+0009]b[U+007F]",
		"\u2705 ok\u00a0":                  "[U+2705] ok[U+00A0]",
		"\xff\xfe":                         `[\xFF][\xFE]`,
		"\U000e0041\ufe0f\u3164\U0001f512": "[U+E0041][U+FE0F][U+3164][U+1F512]",
	} {
		if got := agenttext.Name(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add("a\u202e\xff\u0301")
	f.Fuzz(func(t *testing.T, in string) {
		for _, r := range agenttext.Name(in) {
			if unicode.In(r, unicode.C) || unicode.In(r, unicode.Zl, unicode.Zp) {
				t.Fatalf("%q lets U+%04X out", in, r)
			}
		}
	})
}
