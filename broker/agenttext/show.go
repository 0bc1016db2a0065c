package agenttext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Show returns u as plain text of at most max code points of the original (max <= 0: all of it).
// notes lists the findings that a reader should know. Invisible, reordering and picture-like
// characters become their codes, "[U+202E]", with a count when they repeat, "[U+200B x300]". Bytes
// that are not UTF-8 become "[\xFF]". From the fourth equal non-letter in a row and the third
// newline on, characters are counted, "!![x300]", and a truncated rest is counted, "[+1400]". The
// only control character in the result is the newline, at most two in a row. The text still comes
// from an agent: show it under a heading of ebb's own, in an isolated left-to-right box, without
// parsing it.
func Show(u Untrusted, max int) (text string, notes []Note) {
	return draw(u.Raw(), max, false)
}

// ShowLine is Show in one line, for tables, logs and CSV: a newline is a code too.
func ShowLine(u Untrusted, max int) string {
	text, _ := draw(u.Raw(), max, true)
	return text
}

// drawing is one call of draw.
type drawing struct {
	out     strings.Builder
	oneLine bool
	marks   int  // combining marks since the last base
	base    bool // a mark may stand on what was drawn last
	facts   facts
}

func draw(raw string, max int, oneLine bool) (string, []Note) {
	shown := raw
	if max > 0 {
		n := 0
		for i := range raw {
			if n++; n > max {
				shown = raw[:i]
				break
			}
		}
	}
	d := &drawing{oneLine: oneLine}
	for i := 0; i < len(shown); {
		i += d.next(shown[i:])
	}
	if rest := raw[len(shown):]; rest != "" {
		d.facts.cut = utf8.RuneCountInString(rest)
		fmt.Fprintf(&d.out, "[+%d]", d.facts.cut)
		countHidden(rest, &d.facts)
	}
	return d.out.String(), d.facts.notes(raw)
}

// next draws the run at the start of s and returns its length in bytes.
func (d *drawing) next(s string) int {
	r, size := utf8.DecodeRuneInString(s)
	bad := r == utf8.RuneError && size == 1
	switch {
	case bad:
		n, length := run(s, s[:1])
		d.facts.invalid += n
		d.code(fmt.Sprintf(`\x%02X`, s[0]), n)
		return length
	case r == '\n' && !d.oneLine:
		return d.newlines(s)
	case unicode.Is(unicode.M, r) && drawable(r):
		return d.mark(r, size)
	case !drawable(r):
		n, length := run(s, s[:size])
		d.facts.count(r, n)
		d.code(fmt.Sprintf("U+%04X", r), n)
		return length
	case unicode.IsLetter(r):
		d.out.WriteRune(r)
		d.base, d.marks = true, 0
		return size
	}
	n, length := run(s, s[:size])
	for range min(n, 3) {
		d.out.WriteRune(r)
	}
	d.base, d.marks = unicode.IsNumber(r), 0
	if n > 3 {
		d.count(n)
	}
	return length
}

// mark draws up to two combining marks on a letter. A mark without a letter would change the text
// before it.
func (d *drawing) mark(r rune, size int) int {
	if d.marks++; d.base && d.marks <= 2 {
		d.out.WriteRune(r)
		return size
	}
	d.facts.hidden++
	fmt.Fprintf(&d.out, "[U+%04X]", r)
	d.base = false
	return size
}

// newlines draws a run of newlines. Lines of nothing but spaces count as empty,
// or they would push the rest away all the same.
func (d *drawing) newlines(s string) int {
	n, length := 0, 0
	for i := 0; i < len(s) && (s[i] == '\n' || s[i] == ' '); i++ {
		if s[i] == '\n' {
			n, length = n+1, i+1
		}
	}
	d.base, d.marks = false, 0
	if n <= 2 {
		d.out.WriteString(strings.Repeat("\n", n))
		return length
	}
	d.out.WriteByte('\n')
	d.count(n)
	d.out.WriteByte('\n')
	return length
}

func (d *drawing) code(name string, n int) {
	d.base, d.marks = false, 0
	d.out.WriteByte('[')
	d.out.WriteString(name)
	if n > 3 {
		d.facts.runs++
	}
	if n > 1 {
		fmt.Fprintf(&d.out, " x%d", n)
	}
	d.out.WriteByte(']')
}

func (d *drawing) count(n int) {
	d.facts.runs++
	d.base, d.marks = false, 0
	fmt.Fprintf(&d.out, "[x%d]", n)
}

// run counts how often unit stands at the start of s, and its length in bytes.
func run(s, unit string) (n, length int) {
	for strings.HasPrefix(s[length:], unit) {
		n, length = n+1, length+len(unit)
		if len(unit) == 1 && unit[0] >= utf8.RuneSelf && length < len(s) && utf8.FullRuneInString(s[length:]) {
			// The same byte can also start a valid character.
			if _, size := utf8.DecodeRuneInString(s[length:]); size > 1 {
				break
			}
		}
	}
	return n, length
}
