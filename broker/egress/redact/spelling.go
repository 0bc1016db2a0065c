package redact

import "bytes"

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
