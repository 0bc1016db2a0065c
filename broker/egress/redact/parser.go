package redact

// where a parser is.
type where uint8

const (
	inText      where = iota
	afterName         // of a member: a colon comes
	beforeValue       // after the colon
	inString
	inNested    // an object or array
	inScalar    // a number
	inTag       // the attributes of an element
	inElement   // its text
	inAngle     // after a < there
	inParameter // to the end of it
)

// parser is one text as it comes in, byte by byte, wherever it is cut.
type parser struct {
	a     *automaton
	state uint32
	at    where
	last  byte // read before
	marks int

	// Of the value that is read:
	escaped bool // it is in JSON that stands in a string of other JSON
	quote   byte // that it ends with
	slashes int  // backslashes just read
	marked  bool
	depth   int  // of brackets that are open
	quoted  bool // in a string in them
}

// begin is a text of which nothing is read: a form begins with a name as if there were
// another before it.
func (n *Named) begin() parser { return parser{a: n.a, state: n.a.step(0, '&') &^ hit} }

// feed reads p, and appends to out what is no value that is looked for.
func (s *parser) feed(out, p []byte) []byte {
	for i := 0; i < len(p); {
		if s.at == inText {
			from := i
			i = s.text(p, i)
			out = append(out, p[from:i]...)
			continue
		}
		used := false
		if out, used = s.value(out, p[i]); used {
			s.last = p[i]
			i++
		}
	}
	return out
}

// text reads until a name ends, and says where.
func (s *parser) text(p []byte, i int) int {
	for ; i < len(p); i++ {
		if s.state == 0 {
			for i < len(p) && !s.a.first[p[i]] {
				i++
			}
			if i == len(p) {
				break
			}
		}
		if s.state = s.a.step(s.state, p[i]); s.state < hit {
			continue
		}
		if i > 0 {
			s.last = p[i-1]
		}
		s.named(p[i])
		return i + 1
	}
	s.last = p[i-1]
	return i
}

// named begins a value: what its name ended with says of which kind.
func (s *parser) named(end byte) {
	before := s.last
	*s = parser{a: s.a, marks: s.marks, last: end, at: inParameter}
	switch end {
	case '"', '\'':
		s.at, s.escaped = afterName, before == '\\'
	case '>':
		s.at = inElement
	case ' ':
		s.at = inTag
	}
}

// value reads a byte after a name. used is false for one that is text again.
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
	case inTag:
		if b == '>' {
			s.at = inElement
			if s.last == '/' {
				s.at = inText
			}
		}
		return append(out, b), true
	case inElement:
		if s.at = inAngle; b != '<' {
			s.at, out = inElement, s.mark(out, "")
		}
		return out, true
	case inAngle:
		if b == '!' { // CDATA, or a comment
			s.at = inElement
			return s.mark(out, ""), true
		}
		out = append(out, '<')
	case inParameter:
		if inWord(b) || b == '%' || b == '/' || b == '=' || b == '~' || b == ':' || b == '*' || b == '!' || b == '@' || b == '$' {
			return s.mark(out, ""), true
		}
	}
	s.at = inText
	return out, false
}

// member reads what stands between a name and its value, and how the value begins.
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
	s.at = inText
	return out, false
}

// inString reads a string to its end: the quote, with as many backslashes before it as one
// has that ends.
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
	if slashes > 1 { // others than the quote's own: the string is not empty
		out = s.mark(out, "")
	}
	s.at = inText
	if s.escaped {
		out = append(out, '\\')
	}
	return append(out, b)
}

// bare reports a quote that is one of the syntax, behind so many backslashes.
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
			s.at = inText
		}
	}
}

// mark writes that there was a value, once.
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
