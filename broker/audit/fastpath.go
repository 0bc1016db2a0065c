package audit

import "unicode/utf8"

// isCanonical reports whether raw is in RFC 8785 form. It may return false for canonical input. It
// never returns true for other input; a fuzz test compares it with jcs. encoding/json writes maps
// in this form, so that the mint path rarely parses its data twice.
func isCanonical(raw []byte) bool {
	s := scan{b: raw}
	return s.value(0) && s.i == len(raw)
}

const maxDepth = 16

type scan struct {
	b []byte
	i int
}

// take consumes c if it is next.
func (s *scan) take(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scan) value(depth int) bool {
	if s.i >= len(s.b) || depth > maxDepth {
		return false
	}
	switch c := s.b[s.i]; c {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		_, ok := s.text()
		return ok
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.integer()
	}
}

func (s *scan) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// integer accepts integers that a double represents exactly and prints without an exponent.
func (s *scan) integer() bool {
	minus := s.take('-')
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	n := s.i - start
	if n == 0 || n > 15 || s.b[start] == '0' && (n > 1 || minus) {
		return false
	}
	return s.i == len(s.b) || s.b[s.i] != '.' && s.b[s.i] != 'e' && s.b[s.i] != 'E'
}

// text accepts a string without escapes and returns its content.
func (s *scan) text() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	start, ascii := s.i, true
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			in := s.b[start:s.i]
			s.i++
			return in, ascii || utf8.Valid(in)
		case c == '\\' || c < 0x20:
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

// object requires ASCII names in strictly ascending order: for these, the order of bytes is the
// order of UTF-16 code units that RFC 8785 section 3.2.3 requires.
func (s *scan) object(depth int) bool {
	s.i++
	if s.take('}') {
		return true
	}
	var last []byte
	for first := true; ; first = false {
		name, ok := s.text()
		if !ok || !first && string(name) <= string(last) {
			return false
		}
		for _, c := range name {
			if c >= utf8.RuneSelf {
				return false
			}
		}
		last = name
		if !s.take(':') || !s.value(depth+1) {
			return false
		}
		if s.take('}') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

func (s *scan) array(depth int) bool {
	s.i++
	if s.take(']') {
		return true
	}
	for {
		if !s.value(depth + 1) {
			return false
		}
		if s.take(']') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}
