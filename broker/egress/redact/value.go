package redact

// value reads a byte after a name. used is false if the byte is text again.
func (s *parser) value(out []byte, b byte) (_ []byte, used bool) {
	switch s.at {
	case afterName, beforeValue:
		return s.member(out, b)
	case inString:
		return s.inString(out, b), true
	case inNested:
		s.inNested(b)
		return out, true
	case inScalar:
		if inWord(b) {
			return out, true
		}
	case inElement:
		switch b {
		case '<':
			s.at = inAngle
		case ' ', '\t', '\r', '\n':
			if !s.marked {
				out = append(out, b)
			}
		default:
			out = s.mark(out, "")
		}
		return out, true
	case inAngle:
		if b == '!' { // CDATA, or a comment
			s.at = inElement
			return s.mark(out, ""), true
		}
		s.over()
		return append(out, '<'), false
	case inParameter:
		if inWord(b) || b == '%' || b == '/' || b == '=' || b == '~' || b == ':' || b == '*' || b == '!' || b == '@' || b == '$' {
			return s.mark(out, ""), true
		}
	}
	s.over()
	return out, false
}

// member reads between a name and its value, and the beginning of the value.
func (s *parser) member(out []byte, b byte) ([]byte, bool) {
	space := b == ' ' || b == '\t' || b == '\r' || b == '\n'
	escape := s.escaped && (b == '\\' || s.last == '\\' && (b == 'n' || b == 'r' || b == 't'))
	if s.at == afterName && b == ':' {
		s.at = beforeValue
		return append(out, b), true
	}
	if space || escape {
		return append(out, b), true
	}
	quotes := `"`
	if s.escaped {
		quotes = `\"`
	}
	switch {
	case s.at == afterName:
	case b == '"' || b == '\'':
		s.at, s.quote = inString, b
		return append(out, b), true
	case b == '{' || b == '[':
		s.at, s.depth = inNested, 1
		return s.mark(out, quotes), true
	case b == '-' || b >= '0' && b <= '9':
		s.at = inScalar
		return s.mark(out, quotes), true
	}
	s.over()
	return out, false
}

// inString reads a string up to its closing quote, which has the right number of backslashes before
// it.
func (s *parser) inString(out []byte, b byte) []byte {
	if b == '\\' {
		s.slashes++
		return out
	}
	slashes := s.slashes
	s.slashes = 0
	if b != s.quote || !s.bare(slashes) {
		return s.mark(out, "")
	}
	if slashes > 1 { // backslashes other than the quote's own: the string is not empty
		out = s.mark(out, "")
	}
	if s.escaped {
		out = append(out, '\\')
	}
	s.over()
	return append(out, b)
}

// bare reports whether a quote after so many backslashes is part of the syntax.
func (s *parser) bare(slashes int) bool {
	if s.escaped {
		return slashes%4 == 1
	}
	return slashes%2 == 0
}

func (s *parser) inNested(b byte) {
	slashes := s.slashes
	s.slashes = 0
	switch {
	case b == '\\':
		s.slashes = slashes + 1
	case b == '"' && s.bare(slashes):
		s.quoted = !s.quoted
	case s.quoted:
	case b == '{' || b == '[':
		s.depth++
	case b == '}' || b == ']':
		if s.depth--; s.depth == 0 {
			s.over()
		}
	}
}

// mark writes the mark of a value, once.
func (s *parser) mark(out []byte, quotes string) []byte {
	if s.marked {
		return out
	}
	s.marked = true
	s.marks++
	return append(append(append(out, quotes...), Mark...), quotes...)
}

func inWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || b == '-' || b == '_' || b == '.' || b == '+'
}
