package redact

import "strings"

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

// parser is one text as it comes in, byte by byte, wherever it is cut. What looks like a name may
// be a text that a box has had an answer say, with the real name in what then looks like its
// value: so the automaton reads values, too, and knows at their end how far a name has come.
type parser struct {
	a     *automaton
	state uint32
	at    where
	then  where // behind a value: inText, or what a tag that the value is in, or holds, goes on with
	last  byte  // read before
	tail  []byte
	marks int
	field bool // a field of HTML was called by a name, and its tag may go on

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

// plain reads p as far as it is text in which no value has begun, and says how far that is.
func (s *parser) plain(p []byte) int {
	if len(p) == 0 || s.at != inText && s.at != inTag {
		return 0
	}
	n := s.text(p, 0)
	s.remember(p[:n])
	return n
}

// remember keeps the end of what was read.
func (s *parser) remember(p []byte) {
	if len(p) >= maxTail {
		s.tail = s.tail[:0]
	}
	s.tail = append(s.tail, p[max(0, len(p)-maxTail):]...)
	s.tail = s.tail[max(0, len(s.tail)-maxTail):]
}

// passed has the automaton read a byte of a value. With the end of one a name may end.
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
	case name && p[i] == '>': // what opened the value may be a box's, and its end the secret's beginning
		s.then = inElement
	case name && strings.IndexByte(tagEnds, p[i]) >= 0:
		s.then = inTag
	}
	s.last = p[i]
}

// text reads until a name ends, or the attributes of an element, and says where.
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
		default: // also of />, which may be in an attribute
			*s = parser{a: s.a, state: s.state, tail: s.tail, marks: s.marks, at: inElement}
		}
		return i + 1
	}
	s.last = p[i-1]
	return i
}

// Of what begins before p the tail holds the prefix of an element, and a name.
const (
	maxPrefix = 64
	maxTail   = maxPrefix + 7*maxName + 8 // each byte of it may be escaped
)

// byteAt is a byte of what was read, of p or before it; 0 = the text begins behind it.
func (s *parser) byteAt(p []byte, j int) byte {
	switch {
	case j >= 0:
		return p[j]
	case j >= -len(s.tail):
		return s.tail[len(s.tail)+j]
	}
	return 0
}

// begins reports whether the name that ends at i has a value. One behind a colon is only that of
// an element when this is a tag that opens: what it is in may be any text.
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
	return true // nobody calls a namespace that: rather too much is marked
}

// nameByte reports what the prefix of an element may hold, of which all that is not ASCII may
// be letters.
func nameByte(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || b == '-' || b == '_' || b == '.' || b >= 0x80
}

// inField reports whether the name that ends at i is what an attribute says.
func (s *parser) inField(p []byte, i int) bool {
	return (p[i] == '"' || p[i] == '\'') && s.byteAt(p, i-int(s.a.of(s.state&^hit).found)) == '='
}

// fills reports whether the quote at i begins what a field holds: value="..." (HTML section 4.10.5), or the
// content of a meta.
func (s *parser) fills(p []byte, i int) bool {
	if p[i] != '"' && p[i] != '\'' {
		return false
	}
	j := i - 1
	if s.byteAt(p, j) == '\\' { // of HTML in a string
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

// fill begins such a value.
func (s *parser) fill(p []byte, i int) {
	then := s.at
	*s = parser{a: s.a, state: s.state, tail: s.tail, marks: s.marks, field: true, last: p[i], at: inString, then: then, quote: p[i], escaped: s.byteAt(p, i-1) == '\\'}
}

// named begins a value: what its name, whose last byte is at i, ended with says of which kind.
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

// over goes on behind a value.
func (s *parser) over() { s.at, s.then = s.then, inText }
