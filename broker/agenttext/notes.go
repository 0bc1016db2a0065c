package agenttext

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NoteKind is what a Note is about.
type NoteKind string

// Kinds of notes, the most dangerous first, which is the order of Show.
const (
	NoteImitates NoteKind = "imitates" // words of ebb's own pages
	NoteClaims   NoteKind = "claims"   // words of authority
	NoteHurry    NoteKind = "hurry"    // words of hurry or instruction
	NoteHidden   NoteKind = "hidden"   // characters a reader could not have seen, or that reorder
	NoteScripts  NoteKind = "scripts"  // a word mixes scripts or uses imitations of letters
	NoteDrawn    NoteKind = "drawn"    // characters drawn as codes, or counted instead of drawn
	NoteCut      NoteKind = "cut"      // the end is not shown
)

// Note is one plain line for the reader, written by us: ASCII, one sentence or
// two. It raises attention and decides nothing.
type Note struct {
	Kind  NoteKind `json:"kind"`
	Text  string   `json:"text"`
	Count int      `json:"count"` // how many of them, at least 1
}

// facts is what drawing a text finds out about it.
type facts struct{ hidden, symbols, invalid, runs, cut int }

func (f *facts) count(r rune, n int) {
	if hidden(r) {
		f.hidden += n
	} else {
		f.symbols += n
	}
}

// countHidden counts in text that is not drawn, so that a cut hides nothing.
func countHidden(s string, f *facts) {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			f.invalid++
		case r != '\n' && !drawable(r):
			f.count(r, 1)
		}
		i += n
	}
}

func (f *facts) notes(raw string) []Note {
	var out []Note
	add := func(k NoteKind, n int, format string, args ...any) {
		if n > 0 {
			out = append(out, Note{Kind: k, Text: fmt.Sprintf(format, args...), Count: n})
		}
	}
	text := plainWords(raw)
	add(NoteImitates, matches(text, ours)+labelled(raw), "The text repeats words of this page. It contains no facts and no buttons of ebb.")
	add(NoteClaims, matches(text, claims), "The text claims approval. No approval exists.")
	add(NoteHurry, matches(text, hurry), "The text demands speed or gives orders. ebb cannot confirm any urgency.")
	add(NoteHidden, f.hidden, "Characters that are hidden or reorder text: %d. They are drawn as codes.", f.hidden)
	words, n := mixed(raw)
	add(NoteScripts, n, "Words that mix alphabets or imitate letters: %d. %s", n, strings.Join(words, "; "))
	add(NoteDrawn, f.symbols+f.invalid+f.runs, "%s", f.drawn())
	add(NoteCut, f.cut, "Not shown: %d more characters.", f.cut)
	return out
}

// drawn describes the harmless characters that are shown as codes or counts.
func (f *facts) drawn() string {
	var out []string
	for _, p := range []struct {
		n    int
		what string
	}{{f.symbols, "Emoji and symbols shown as codes"}, {f.invalid, "Bytes that are not text, shown as codes"}, {f.runs, "Runs of one character, shown as counts"}} {
		if p.n > 0 {
			out = append(out, fmt.Sprintf("%s: %d.", p.what, p.n))
		}
	}
	return strings.Join(out, " ")
}

const (
	maxWords    = 5  // words listed in a note
	maxWordSize = 40 // code points of each
)

// mixed lists the words that mix scripts, with every code point that is not
// ASCII spelled out, and counts all of them.
func mixed(raw string) (listed []string, n int) {
	// A hidden character does not end a word: splitting one would hide the mix.
	split := func(r rune) bool { return !wordRune(r) && (drawable(r) || r == '\n' || unicode.Is(unicode.Z, r)) }
	for word := range strings.FieldsFuncSeq(raw, split) {
		var scripts []string
		for _, r := range word {
			if s := script(r); s != "" && drawable(r) && !slices.Contains(scripts, s) {
				scripts = append(scripts, s)
			}
		}
		if len(scripts) < 2 && !slices.Contains(scripts, "styled") {
			continue
		}
		if n++; len(listed) < maxWords {
			slices.Sort(scripts)
			listed = append(listed, spell(word)+" ("+strings.Join(scripts, ", ")+")")
		}
	}
	return listed, n
}

// spell writes word in ASCII.
func spell(word string) string {
	var b strings.Builder
	n := 0
	for _, r := range word {
		if n++; n > maxWordSize {
			b.WriteString("...")
			break
		}
		if r > 0x20 && r < 0x7f {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "[U+%04X]", r)
		}
	}
	return b.String()
}
