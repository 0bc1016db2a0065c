package agenttext_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

func TestDrawsWhatPassesForAnotherAsItsCode(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"\U0001F3FB": "[U+1F3FB]", // a skin tone is a modifier symbol, such as ^ is
		"\U0001F10C": "[U+1F10C]", // a digit in a black circle is a number
		"a\x7fb":     "a[U+007F]b",
	} {
		if got, _ := agenttext.Show(agenttext.From(raw), 0); got != want {
			t.Errorf("%+q: got %q, want %q", raw, got, want)
		}
	}
	b, err := agenttext.From("<a>&").MarshalJSON()
	if err != nil || string(b) != `"\u003ca\u003e\u0026"` {
		t.Errorf("got %s, %v", b, err)
	}
}

func TestNotesOfWhatIsHidden(t *testing.T) {
	t.Parallel()
	kinds := func(raw string) (out []agenttext.NoteKind) {
		_, notes := agenttext.Show(agenttext.From(raw), 0)
		for _, n := range notes {
			out = append(out, n.Kind)
		}
		return out
	}
	for _, raw := range []string{"\u2800", "\ufffc", "\ufffd"} { // blanks that are symbols by their category
		_, notes := agenttext.Show(agenttext.From(raw), 0)
		if want := (agenttext.Note{Kind: agenttext.NoteHidden, Count: 1, Text: "Characters that are hidden or reorder text: 1. They are drawn as codes."}); !slices.Equal(notes, []agenttext.Note{want}) {
			t.Errorf("%+q: got %v", raw, notes)
		}
	}
	if got := kinds("appro\u3164ved"); !slices.Contains(got, agenttext.NoteClaims) { // a filler is a letter by its category
		t.Errorf("a hidden letter splits a claim: got %v", got)
	}
}

func TestNotesAreBounded(t *testing.T) {
	t.Parallel()
	note := func(raw string) agenttext.Note {
		_, notes := agenttext.Show(agenttext.From(raw), 0)
		i := slices.IndexFunc(notes, func(n agenttext.Note) bool { return n.Kind == agenttext.NoteScripts })
		if i < 0 {
			t.Fatalf("no note of mixed scripts for %q", raw)
		}
		return notes[i]
	}
	if n := note(strings.Repeat("a\u0430 ", 7)); n.Count != 7 || strings.Count(n.Text, "(Cyrillic, Latin)") != 5 {
		t.Errorf("got %d: %s", n.Count, n.Text)
	}
	if n := note(strings.Repeat("a\u0430", 500)); !strings.Contains(n.Text, "...") || len(n.Text) > 500 {
		t.Errorf("got %d bytes", len(n.Text))
	}
}
