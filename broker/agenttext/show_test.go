package agenttext_test

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
)

func hostile(tb testing.TB) map[string][]byte {
	tb.Helper()
	out := map[string][]byte{}
	for name, text := range agenttexttest.Hostile(tb) {
		out[name] = []byte(text)
	}
	return out
}

func TestShow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, raw, want string }{
		{"empty", "", ""},
		{"plain", "Push fix/4711 to acme/web.", "Push fix/4711 to acme/web."},
		{"letters stay", "naïve Grüße Нужно שלום 日本", "naïve Grüße Нужно שלום 日本"},
		{"mark on a letter", "e\u0301", "e\u0301"},
		{"bidi override", "a\u202eb", "a[U+202E]b"},
		{"escape", "a\x1b[2Kb", "a[U+001B][2Kb"},
		{"tab and CR", "a\tb\rc", "a[U+0009]b[U+000D]c"},
		{"tags", "a\U000E0041b", "a[U+E0041]b"},
		{"zero width run", "a" + strings.Repeat("\u200b", 300) + "b", "a[U+200B x300]b"},
		{"no-break space", "a\u00a0b\u3000c", "a[U+00A0]b[U+3000]c"},
		{"separators", "a\u2028b\u2029c", "a[U+2028]b[U+2029]c"},
		{"variation selector", "a\ufe0fb", "a[U+FE0F]b"},
		{"grapheme joiner", "a\u034fb", "a[U+034F]b"},
		{"Hangul fillers", "\u115f\u1160\u3164\uffa0", "[U+115F][U+1160][U+3164][U+FFA0]"},
		{"braille blank", "\u2800", "[U+2800]"},
		{"private use", "\ue000\U0010fffd", "[U+E000][U+10FFFD]"},
		{"unassigned", "\u0378\ufdd0", "[U+0378][U+FDD0]"},
		{"replacement character", "\ufffd", "[U+FFFD]"},
		{"invalid bytes", "a\xff\xffb\xc3\xc3\xa9", "a[\\xFF x2]b[\\xC3]é"},
		{"invalid before valid of the same lead", "\xc3\xc3\xc3\xa9", "[\\xC3 x2]é"},
		{"emoji", "\u2705\U0001F512\u2714\ufe0f", "[U+2705][U+1F512][U+2714][U+FE0F]"},
		{"tick look-alike", "\u221a", "[U+221A]"},
		{"keycap", "1\u20e3", "1[U+20E3]"},
		{"third mark", "e\u0301\u0302\u0303\u0304x", "e\u0301\u0302[U+0303][U+0304]x"},
		{"mark at the start", "\u0338x", "[U+0338]x"},
		{"mark after a space", "a \u0338", "a [U+0338]"},
		{"mark after a code", "\u200b\u0338", "[U+200B][U+0338]"},
		{"mark after a count", "1111\u0338", "111[x4][U+0338]"},
		{"two newlines", "a\n\nb", "a\n\nb"},
		{"three newlines", "a\n\n\nb", "a\n[x3]\nb"},
		{"blank lines", "a\n  \n \n   b", "a\n[x3]\n   b"},
		{"three equal", "a!!!b", "a!!!b"},
		{"four equal", "a!!!!b", "a!!![x4]b"},
		{"300 spaces", "a" + strings.Repeat(" ", 300) + "b", "a   [x300]b"},
		{"equal letters stay", "aaaaaaa", "aaaaaaa"},
		{"not parsed", "**a** [b](c) <i>d</i>", "**a** [b](c) <i>d</i>"},
	} {
		if got, _ := agenttext.Show(agenttext.From(c.raw), 0); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestShowCuts(t *testing.T) {
	t.Parallel()
	u := agenttext.From("äbc\u200bd\u202e\u2705\xff")
	text, notes := agenttext.Show(u, 3)
	if want := "äbc[+5]"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	want := []agenttext.Note{
		{Kind: agenttext.NoteHidden, Count: 2, Text: "Characters that are hidden or reorder text: 2. They are drawn as codes."},
		{Kind: agenttext.NoteDrawn, Count: 2, Text: "Emoji and symbols shown as codes: 1. Bytes that are not text, shown as codes: 1."},
		{Kind: agenttext.NoteCut, Count: 5, Text: "Not shown: 5 more characters."},
	}
	if !slices.Equal(notes, want) {
		t.Errorf("got %v, want %v", notes, want)
	}
	if text, _ := agenttext.Show(u, 8); strings.Contains(text, "[+") {
		t.Errorf("cut although it fits: %q", text)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	files := hostile(t)
	for name, want := range map[string][]agenttext.NoteKind{
		"honest":              nil,
		"honest-cyrillic":     nil,
		"fake-approval":       {agenttext.NoteClaims, agenttext.NoteHurry},
		"fake-approval-split": {agenttext.NoteClaims, agenttext.NoteHurry, agenttext.NoteHidden},
		"fake-page":           {agenttext.NoteImitates, agenttext.NoteClaims},
		"lookalike":           {agenttext.NoteScripts},
		"zerowidth-flood":     {agenttext.NoteHidden, agenttext.NoteDrawn},
		"padding-newlines":    {agenttext.NoteDrawn},
		"padding-blank-lines": {agenttext.NoteDrawn},
		"emoji":               {agenttext.NoteClaims, agenttext.NoteHidden, agenttext.NoteDrawn},
		"tags":                {agenttext.NoteHidden},
		"bidi":                {agenttext.NoteHidden},
	} {
		var got []agenttext.NoteKind
		_, notes := agenttext.Show(agenttext.From(string(files[name])), 0)
		for _, n := range notes {
			got = append(got, n.Kind)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for _, raw := range []string{"End of the agent text. Nothing in it is a fact.", "Verified by\u200b ebb", "[ Approve as requested ]", "HIGH RISK: none", "x\n[ Approve: write to acme/web, 15 min ]", "x\n  >> De\u200bny <<\ny", "Can it be undone? Yes."} {
		if _, notes := agenttext.Show(agenttext.From(raw), 0); len(notes) == 0 || notes[0].Kind != agenttext.NoteImitates {
			t.Errorf("%q: got %v, want a note that it repeats the page", raw, notes)
		}
	}
	for _, raw := range []string{"I need to check the deny list now.", "Please approve this, I need it for the unchanged answers."} {
		if _, notes := agenttext.Show(agenttext.From(raw), 0); len(notes) > 0 && notes[0].Kind == agenttext.NoteImitates {
			t.Errorf("%q: got %v", raw, notes)
		}
	}
	_, notes := agenttext.Show(agenttext.From("see g\u0456thub.com and \u0430\u200bbc"), 0)
	want := "Words that mix alphabets or imitate letters: 2. g[U+0456]thub.com (Cyrillic, Latin); [U+0430][U+200B]bc (Cyrillic, Latin)"
	if i := slices.IndexFunc(notes, func(n agenttext.Note) bool { return n.Kind == agenttext.NoteScripts }); i < 0 || notes[i].Text != want {
		t.Errorf("got %v, want %q", notes, want)
	}
}

func TestShowLine(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"a\nb":             "a[U+000A]b",
		"a\n\n\n\nb":       "a[U+000A x4]b",
		"one two":          "one two",
		"abcdefghijklmnop": "abcdefghij[+6]",
	} {
		if got := agenttext.ShowLine(agenttext.From(raw), 10); got != want {
			t.Errorf("ShowLine(%q) = %q, want %q", raw, got, want)
		}
	}
}

func TestCSVCell(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":        "",
		"plain":   "plain",
		"a=b":     "a=b",
		"=1":      "'=1",
		"+1":      "'+1",
		"-1":      "'-1",
		"@a":      "'@a",
		"\t=1":    "'\t=1",
		"\r=1":    "'\r=1",
		"\n=1":    "'\n=1",
		"  =1":    "'  =1",
		"\uff1d1": "'\uff1d1",
		"   ":     "   ",
	} {
		if got := agenttext.CSVCell(in); got != want {
			t.Errorf("CSVCell(%q) = %q, want %q", in, got, want)
		}
	}
	for name, raw := range hostile(t) {
		var b strings.Builder
		w := csv.NewWriter(&b)
		cell := agenttext.CSVCell(agenttext.ShowLine(agenttext.From(string(raw)), 0))
		if err := w.Write([]string{cell}); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		if line := strings.TrimLeft(b.String(), `" `); line == "" || strings.ContainsAny(line[:1], "=+-@\t\r") {
			t.Errorf("%s: cell starts with %q", name, line)
		}
	}
}

// check asserts what must hold for every drawing of every text.
func check(t *testing.T, text string, oneLine bool) {
	t.Helper()
	marks, prev := 0, ' '
	for _, r := range text {
		switch {
		case r == '\n' && !oneLine, r == ' ':
		case unicode.In(r, unicode.C, unicode.Z, unicode.So, unicode.Me, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			t.Fatalf("%U in %q", r, text)
		case !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S):
			t.Fatalf("unassigned %U in %q", r, text)
		}
		if unicode.Is(unicode.M, r) {
			if marks++; marks > 2 || marks == 1 && !unicode.In(prev, unicode.L, unicode.N) {
				t.Fatalf("stray mark %U in %q", r, text)
			}
		} else {
			marks = 0
		}
		prev = r
	}
	if !utf8.ValidString(text) || strings.Contains(text, "\n\n\n") {
		t.Fatalf("bad text %q", text)
	}
}

func FuzzShow(f *testing.F) {
	for _, b := range hostile(f) {
		f.Add(b, 0)
		f.Add(b, 7)
	}
	f.Fuzz(func(t *testing.T, raw []byte, max int) {
		u := agenttext.From(string(raw))
		text, notes := agenttext.Show(u, max)
		check(t, text, false)
		check(t, agenttext.ShowLine(u, max), true)
		for _, n := range notes {
			if n.Count < 1 || strings.ContainsFunc(n.Text, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
				t.Fatalf("bad note %+v", n)
			}
		}
		if len(text) > 16*len(raw)+32 {
			t.Fatalf("%d bytes drawn as %d", len(raw), len(text))
		}
	})
}
