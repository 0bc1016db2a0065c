package redact

import (
	"bytes"
	"html"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// marks are the bytes that begin an escape: of URLs (RFC 3986 section 2.1), quoted-printable (RFC
// 2045 section 6.7), JSON and programming languages, HTML. spaceMark is the escape for a space in
// forms.
const (
	marks     = `%=\&`
	spaceMark = '+'
)

// second has, for each byte, the bits of the marks after which it may be the second byte of an
// escape. The bit of a mark is its index.
var second = func() (t [256]uint8) {
	for mark, bytes := range []string{"uU0123456789abcdefABCDEF", "\r\n0123456789abcdefABCDEF", "uUx0123nrtbfva", "#"} {
		for i := range len(bytes) {
			t[bytes[i]] |= 1 << mark
		}
	}
	for b := range t {
		c := byte(b)
		if c|0x20 >= 'a' && c|0x20 <= 'z' {
			t[b] |= 1 << 3
		}
		if c >= ' ' && c < 0x7f && !alphanumeric(c) { // escaped as itself
			t[b] |= 1 << 2
		}
		if strings.IndexByte(marks, c) >= 0 { // it may be escaped itself
			t[b] |= 1<<len(marks) - 1
		}
	}
	return t
}()

// maxEscape is the maximum length of an escape, in characters. The longest name in HTML has 33.
const maxEscape = 33

// verdict is the result of reading the beginning of an escape.
type verdict uint8

const (
	noEscape   verdict = iota // further characters cannot make it one
	unfinished                // more characters are needed
	finished
)

// stands is the meaning of an escape: up to 4 bytes, and none for a line break that is not part of
// the text. If is is true, the escape names a character of Latin-1 and may also mean the single
// byte raw.
type stands struct {
	out [utf8.UTFMax]byte
	n   int8
	raw byte
	is  bool
}

// unescape reads an escape. The caller has found all shorter beginnings of b unfinished.
func unescape(b []byte) (stands, verdict) {
	if len(b) > maxEscape {
		return stands{}, noEscape
	}
	switch {
	case b[0] == spaceMark:
		return ascii(' '), finished
	case len(b) == 1:
		return stands{}, unfinished
	case b[0] == '%' && b[1]|0x20 == 'u': // JavaScript's escape
		return character(b[2:], 4)
	case b[0] == '%':
		return octet(b[1:])
	case b[0] == '=':
		return printable(b)
	case b[0] == '&':
		return entity(b)
	}
	return backslash(b)
}

func ascii(c byte) stands { return stands{out: [utf8.UTFMax]byte{c}, n: 1} }

// printable reads an escape of quoted-printable.
func printable(b []byte) (stands, verdict) {
	switch {
	case b[1] == '\n' || b[1] == '\r' && len(b) == 3 && b[2] == '\n':
		return stands{}, finished
	case b[1] == '\r' && len(b) == 2:
		return stands{}, unfinished
	}
	return octet(b[1:])
}

// octet reads a byte of two hexadecimal digits.
func octet(digits []byte) (stands, verdict) {
	v, verdict := number(digits, 16, 2)
	return ascii(byte(v)), verdict
}

// character reads a Unicode character of n hexadecimal digits.
func character(digits []byte, n int) (stands, verdict) {
	v, verdict := number(digits, 16, n)
	if verdict != finished {
		return stands{}, verdict
	}
	return of(rune(v))
}

func of(r rune) (stands, verdict) {
	if !utf8.ValidRune(r) {
		return stands{}, noEscape
	}
	s := stands{raw: byte(r), is: r >= utf8.RuneSelf && r <= 0xff}
	s.n = int8(utf8.EncodeRune(s.out[:], r))
	return s, finished
}

// number reads n digits of a base; n = 0 reads any number of them.
func number(digits []byte, base, n int) (v int, _ verdict) {
	for _, c := range digits {
		d := int(hexValues[c])
		if d >= base || v > utf8.MaxRune {
			return 0, noEscape
		}
		v = v*base + d
	}
	if len(digits) < n || n == 0 {
		return v, unfinished
	}
	return v, finished
}

// simple has the byte that a letter after a backslash stands for.
var simple = [256]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'f': '\f', 'v': '\v', 'a': '\a'}

// backslash reads an escape of JSON (RFC 8259 section 7) or of a programming language.
func backslash(b []byte) (stands, verdict) {
	switch c := b[1]; {
	case c == 'u' && len(b) > 2 && b[2] == '{':
		return closed(b[3:], 16, '}')
	case c == 'u':
		return unit(b)
	case c == 'U':
		return character(b[2:], 8)
	case c == 'x':
		v, verdict := number(b[2:], 16, 2)
		if verdict == finished && v >= utf8.RuneSelf { // in JavaScript it is a character, elsewhere a byte
			return of(rune(v))
		}
		return ascii(byte(v)), verdict
	case c >= '0' && c <= '3':
		v, verdict := number(b[1:], 8, 3)
		return ascii(byte(v)), verdict
	case simple[c] != 0:
		return ascii(simple[c]), finished
	case second[c]&(1<<2) != 0: // the byte itself
		return ascii(c), finished
	}
	return stands{}, noEscape
}

// unit reads a code unit of UTF-16 (\u003d), or a surrogate pair.
func unit(b []byte) (stands, verdict) {
	v, verdict := number(b[2:min(len(b), 6)], 16, 4)
	if verdict != finished || !utf16.IsSurrogate(rune(v)) {
		if verdict == finished {
			return of(rune(v))
		}
		return stands{}, verdict
	}
	if len(b) >= 7 && b[6] != '\\' || len(b) >= 8 && b[7] != 'u' {
		return stands{}, noEscape
	}
	low, verdict := number(b[min(len(b), 8):], 16, 4)
	if verdict != finished {
		return stands{}, verdict
	}
	return of(utf16.DecodeRune(rune(v), rune(low)))
}

// closed reads the digits of a character up to the end byte.
func closed(b []byte, base int, end byte) (stands, verdict) {
	digits, last := b, byte(0)
	if len(b) > 1 {
		digits, last = b[:len(b)-1], b[len(b)-1]
	}
	if last != end {
		_, verdict := number(b, base, 0)
		return stands{}, verdict
	}
	v, verdict := number(digits, base, 0)
	if verdict == noEscape {
		return stands{}, verdict
	}
	return of(rune(v))
}

// entity reads a character reference of HTML (section 13.5 of the standard), with its semicolon.
func entity(b []byte) (stands, verdict) {
	last := b[len(b)-1]
	switch {
	case b[1] == '#' && len(b) == 2:
		return stands{}, unfinished
	case b[1] == '#' && b[2]|0x20 == 'x' && len(b) == 3:
		return stands{}, unfinished
	case b[1] == '#' && b[2]|0x20 == 'x':
		return closed(b[3:], 16, ';')
	case b[1] == '#':
		return closed(b[2:], 10, ';')
	case last != ';' || len(b) < 4:
		if alphanumeric(last) {
			return stands{}, unfinished
		}
		return stands{}, noEscape
	}
	text, known := common[string(b)]
	if !known {
		if text = html.UnescapeString(string(b)); text == string(b) || len(text) > utf8.UTFMax || strings.HasSuffix(text, ";") && string(b) != "&semi;" {
			return stands{}, noEscape
		}
	}
	s := stands{n: int8(len(text))}
	copy(s.out[:], text)
	return s, finished
}

// common has the names that occur most, so that they need no search among all names.
var common = map[string]string{"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": `"`, "&apos;": "'", "&nbsp;": "\u00a0"}

// edge is a way to read a text from an index on: as out, which ends before to.
type edge struct {
	stands
	to int
}

// spelling reads the escapes in a text: of one level, and of two levels, where the characters of an
// escape are escaped. It returns all ways to read a text, because a secret may contain what looks
// like an escape.
type spelling struct {
	space bool // spaceMark stands for a space
	lower bool // letters are read in lower case
	edges []edge
	short bool // more has to come
	buf   [maxEscape + 1]byte
}

func (s *spelling) begins(c byte) bool {
	return c == '%' || c == '=' || c == '\\' || c == '&' || c == spaceMark && s.space
}

// at returns the escapes that begin at p. short reports that the text ends within one.
func (s *spelling) at(t []byte, p int) (_ []edge, short bool) {
	s.edges, s.short = s.edges[:0], false
	if p+1 < len(t) && t[p] != spaceMark && second[t[p+1]]&kinds[t[p]] == 0 {
		return nil, false
	}
	e, ok := s.single(t, p)
	if ok {
		s.add(e)
		if e.n == 1 && s.begins(e.out[0]) {
			s.buf[0] = e.out[0]
			s.spell(t, 1, e.to)
		}
	}
	// An escape inside an escape begins where the first reading ended: its first byte is not a
	// character of the outer escape, unless a backslash precedes it.
	if end := e.to - 1; end > p && s.begins(t[end]) {
		s.nested(t, copy(s.buf[:], t[p:end]), end)
	}
	return s.edges, s.short
}

// nested reads the escape at p as a character of an outer escape, of which n characters are in buf.
func (s *spelling) nested(t []byte, n, p int) {
	if e, ok := s.single(t, p); ok && e.n <= 1 {
		if e.n == 1 {
			s.buf[n] = e.out[0]
		}
		s.spell(t, n+int(e.n), e.to)
	}
}

// kinds has the bit of each mark in second.
var kinds = func() (t [256]uint8) {
	for i := range len(marks) {
		t[marks[i]] = 1 << i
	}
	return t
}()

// add adds the meaning of an escape: the character, and the byte that it may be instead.
func (s *spelling) add(e edge) {
	if c := e.out[0]; s.lower && c >= 'A' && c <= 'Z' {
		e.out[0] = c | 0x20
	}
	s.edges = append(s.edges, e)
	if e.is {
		s.edges = append(s.edges, edge{stands: ascii(e.raw), to: e.to})
	}
}

// single reads an escape of one level that begins at p. Without an escape the edge ends where that
// became certain.
func (s *spelling) single(t []byte, p int) (edge, bool) {
	if p+1 < len(t) && t[p] == '\\' && pairs[t[p+1]] != 0 {
		return edge{stands: ascii(pairs[t[p+1]]), to: p + 2}, true
	}
	for to := p + 1; to <= len(t); to++ {
		out, v := unescape(t[p:to])
		if v != unfinished {
			return edge{stands: out, to: to}, v == finished
		}
	}
	s.short = true
	return edge{to: len(t)}, false
}

// spell reads an escape of which n characters are in buf, one of them escaped, from p on.
func (s *spelling) spell(t []byte, n, p int) {
	switch out, v := unescape(s.buf[:n]); {
	case v == finished:
		s.add(edge{stands: out, to: p})
		return
	case v == noEscape:
		return
	case p == len(t):
		s.short = true
		return
	}
	if s.begins(t[p]) {
		s.nested(t, n, p)
	}
	s.buf[n] = t[p]
	s.spell(t, n+1, p+1)
}

// places finds the marks in a text.
type places struct {
	t    []byte
	next [len(marks) + 1]int // number of marks that are looked for
	n    int                 // how many of the marks count
}

func (s *spelling) places(t []byte) places {
	p := places{t: t, n: len(marks)}
	if s.space {
		p.n++
	}
	return p
}

// from returns the index of the first mark at or after i, or the length of the text.
func (p *places) from(i int) int {
	first := len(p.t)
	for k := range p.next[:p.n] {
		if p.next[k] <= i {
			p.next[k] = len(p.t)
			if n := bytes.IndexByte(p.t[min(i, len(p.t)):], (marks + string(spaceMark))[k]); n >= 0 {
				p.next[k] = i + n
			}
		}
		first = min(first, p.next[k])
	}
	return first
}
