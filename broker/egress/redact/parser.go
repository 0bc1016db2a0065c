package redact

import (
	"strings"
)

// where is the position of a parser in the syntax.
type where uint8

const (
	inText      where = iota
	afterName         // of a member: a colon is expected
	beforeValue       // after the colon
	inString
	inNested    // an object or array
	inScalar    // a number
	inTag       // in the attributes of an element
	inElement   // in the text of an element
	inAngle     // after a < in that text
	inParameter // up to its end
)

// parser reads one text as it arrives, wherever it is split. A sandbox may have made the upstream
// repeat a text that looks like a name, with the real name in the apparent value. So the automaton
// reads values too, and knows at their end how much of a name it has seen.
type parser struct {
	a     *automaton
	state uint32
	at    where
	then  where // after a value: inText, or the state of the tag that the value is in
	last  byte  // the byte before
	tail  []byte
	marks int
	field bool // an HTML field with such a name has begun, and its tag may continue

	// The current value:
	escaped bool // it is in JSON inside a JSON string
	quote   byte // the quote at its end
	slashes int  // number of backslashes before this byte
	marked  bool
	depth   int  // number of open brackets
	quoted  bool // in a string inside the brackets
}

// begin returns a parser for a new text. A form begins with a name, as if another parameter stood
// before it.
func (n *Named) begin() parser { return parser{a: n.a, state: n.a.step(0, '&') &^ hit} }

// feed reads p, and appends all of it except values to out.
func (s *parser) feed(out, p []byte) []byte {
	for i := 0; i < len(p); {
		if s.at == inText || s.at == inTag {
			from := i
			i = s.text(p, i)
			out = append(out, p[from:i]...)
			continue
		}
		used := false
		if out, used = s.value(out, p[i]); used {
			s.passed(p, i)
			i++
		}
	}
	s.remember(p)
	return out
}

// plain reads p up to the first value, and returns how many bytes that is.
func (s *parser) plain(p []byte) int {
	if len(p) == 0 || s.at != inText && s.at != inTag {
		return 0
	}
	n := s.text(p, 0)
	s.remember(p[:n])
	return n
}

// remember keeps the end of p.
func (s *parser) remember(p []byte) {
	if len(p) >= maxTail {
		s.tail = s.tail[:0]
	}
	s.tail = append(s.tail, p[max(0, len(p)-maxTail):]...)
	s.tail = s.tail[max(0, len(s.tail)-maxTail):]
}

// passed makes the automaton read a byte of a value. A name may end with the end of a value.
func (s *parser) passed(p []byte, i int) {
	s.state = s.a.step(s.state, p[i])
	name := s.state >= hit && s.begins(p, i)
	s.field = s.field || name && s.inField(p, i)
	switch s.state &^= hit; {
	case name && (s.at == inText || s.at == inTag):
		s.named(p, i)
		return
	case s.field && (s.at == inText || s.at == inTag) && s.fills(p, i):
		s.fill(p, i)
		return
	case name && p[i] == '>': // the tag may come from the sandbox, so that the secret may begin after it
		s.then = inElement
	case name && strings.IndexByte(tagEnds, p[i]) >= 0:
		s.then = inTag
	}
	s.last = p[i]
}

// text reads up to the end of a name or of the attributes of an element, and returns the index
// there.
func (s *parser) text(p []byte, i int) int {
	for ; i < len(p); i++ {
		if s.state == 0 && s.at == inText && !s.field {
			if i = s.a.skip(p, i); i == len(p) {
				break
			}
		}
		s.state = s.a.step(s.state, p[i])
		name, ends := s.state >= hit && s.begins(p, i), s.at == inTag && p[i] == '>'
		s.state &^= hit
		fills := false
		if s.field {
			s.field = p[i] != '<'
			fills = s.fills(p, i)
		}
		if !name && !ends && !fills {
			continue
		}
		if i > 0 {
			s.last = p[i-1]
		}
		switch {
		case name:
			s.named(p, i)
		case fills:
			s.fill(p, i)
		default: // also after />, which may be inside an attribute
			*s = parser{a: s.a, state: s.state, tail: s.tail, marks: s.marks, at: inElement}
		}
		return i + 1
	}
	s.last = p[i-1]
	return i
}

// The tail holds the prefix and the name of an element that begin before p.
const (
	maxPrefix = 64
	maxTail   = maxPrefix + 7*maxName + 8 // each byte of the name may be escaped
)

// byteAt returns a byte of p, or of the text before p for a negative index; 0 = before the text.
func (s *parser) byteAt(p []byte, j int) byte {
	switch {
	case j >= 0:
		return p[j]
	case j >= -len(s.tail):
		return s.tail[len(s.tail)+j]
	}
	return 0
}

// begins reports whether a value follows the name that ends at i. A name after a colon counts only
// as an element in an opening tag, because the rest of the text may be anything.
func (s *parser) begins(p []byte, i int) bool {
	if strings.IndexByte(tagEnds, p[i]) < 0 {
		return true
	}
	from := i + 1 - int(s.a.of(s.state&^hit).found)
	if s.byteAt(p, from) == '<' {
		return true
	}
	for j := from - 1; j >= from-maxPrefix; j-- {
		if b := s.byteAt(p, j); !nameByte(b) {
			return b == '<'
		}
	}
	return true // no namespace has such a long prefix: in doubt the value is marked
}

// nameByte reports whether the prefix of an element may hold a byte. Bytes that are not ASCII may
// be letters.
func nameByte(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || b == '-' || b == '_' || b == '.' || b >= 0x80
}

// inField reports whether the name that ends at i is the value of an attribute.
func (s *parser) inField(p []byte, i int) bool {
	return (p[i] == '"' || p[i] == '\'') && s.byteAt(p, i-int(s.a.of(s.state&^hit).found)) == '='
}

// fills reports whether the quote at i begins the value of a field: value="..." (HTML section
// 4.10.5), or the content of a meta element.
func (s *parser) fills(p []byte, i int) bool {
	if p[i] != '"' && p[i] != '\'' {
		return false
	}
	j := i - 1
	if s.byteAt(p, j) == '\\' { // HTML inside a string
		j--
	}
	if s.byteAt(p, j) != '=' {
		return false
	}
	for _, name := range []string{"value", "content"} {
		k := 0
		for k < len(name) && s.byteAt(p, j-1-k)|0x20 == name[len(name)-1-k] {
			k++
		}
		if k == len(name) && !nameByte(s.byteAt(p, j-1-k)) {
			return true
		}
	}
	return false
}

// fill begins the value of a field.
func (s *parser) fill(p []byte, i int) {
	then := s.at
	*s = parser{a: s.a, state: s.state, tail: s.tail, marks: s.marks, field: true, last: p[i], at: inString, then: then, quote: p[i], escaped: s.byteAt(p, i-1) == '\\'}
}

// named begins a value. The last byte of the name, at i, tells which kind of value follows.
func (s *parser) named(p []byte, i int) {
	end, before, then := p[i], s.last, inText
	field := s.field || s.inField(p, i)
	if s.at == inTag {
		then = inTag
	}
	*s = parser{a: s.a, state: s.state, tail: s.tail, marks: s.marks, field: field, last: end, at: inParameter, then: then}
	switch end {
	case '"', '\'':
		s.at, s.escaped = afterName, before == '\\'
	case '>':
		s.at = inElement
	case ' ', '\t', '\r', '\n':
		s.at = inTag
	}
}

// over continues after a value.
func (s *parser) over() { s.at, s.then = s.then, inText }

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
