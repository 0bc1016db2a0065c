package graphql

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// The bounds of a document.
const (
	maxTokens = 20_000 // of the document, and JSON values of the variables
	maxDepth  = 40     // of selections, and of values
	maxParts  = 100    // operations and fragments; arguments of a field; members of an object; variables
	maxFields = 5_000  // after every fragment is inserted
	maxName   = 100    // bytes of a name
)

var (
	errSyntax   = content.Refuse("its query does not follow the grammar of executable documents (GraphQL specification, October 2021)")
	errTooLarge = content.Refuse("its query or its variables are too large or too deep")
	errReturn   = content.Refuse("its query has a carriage return without a line feed, which servers read differently")
)

// kind is the kind of a token: a punctuator's first byte, or one of these.
type kind byte

const (
	end     kind = 0
	name    kind = 'n'
	integer kind = 'i'
	float   kind = 'f'
	text    kind = 's' // a string or block string; its token holds the value
	spread  kind = '.'
)

// token is a lexical token (section 2.1.6).
type token struct {
	kind kind
	text string
}

// lexer splits a document into tokens. It holds the token that is next.
type lexer struct {
	src   string // the rest, after next
	next  token
	count int
}

// advance reads the next token.
func (l *lexer) advance() error {
	if l.count++; l.count > maxTokens {
		return errTooLarge
	}
	if err := l.skipIgnored(); err != nil {
		return err
	}
	if l.src == "" {
		l.next = token{}
		return nil
	}
	switch c := l.src[0]; {
	case strings.IndexByte("!$():=@[]{|}", c) >= 0:
		l.next = token{kind(c), l.take(1)}
		return nil
	case strings.HasPrefix(l.src, "..."):
		l.next = token{spread, l.take(3)}
		return nil
	case isNameStart(c):
		n := 1
		for n < len(l.src) && (isNameStart(l.src[n]) || isDigit(l.src[n])) {
			n++
		}
		l.next = token{name, l.take(n)}
		if n > maxName {
			return errTooLarge
		}
		return nil
	case c == '-' || isDigit(c):
		return l.number()
	case strings.HasPrefix(l.src, `"""`):
		return l.block()
	case c == '"':
		return l.quoted()
	}
	return errSyntax
}

func (l *lexer) take(n int) string {
	t := l.src[:n]
	l.src = l.src[n:]
	return t
}

// skipIgnored skips white space, commas and comments (section 2.1.1 to 2.1.5). A byte order mark,
// which the section allows as well, is refused.
func (l *lexer) skipIgnored() error {
	for i := 0; ; i++ {
		if i == len(l.src) {
			l.src = ""
			return nil
		}
		switch c := l.src[i]; c {
		case ' ', '\t', '\n', ',':
		case '\r':
			if !strings.HasPrefix(l.src[i:], "\r\n") {
				return errReturn
			}
		case '#':
			n := strings.IndexByte(l.src[i:], '\n')
			if n < 0 {
				n = len(l.src) - i
			}
			comment := strings.TrimSuffix(l.src[i:i+n], "\r")
			if strings.ContainsFunc(comment, endsLine) {
				return content.Refuse("a comment in its query has a character that some servers take for the end of the line")
			}
			i += n - 1
		default:
			l.src = l.src[i:]
			return nil
		}
	}
}

// endsLine reports whether a character of a comment could end its line: controls, and the line and
// paragraph separators.
func endsLine(r rune) bool {
	return r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029
}

func isNameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// number reads an IntValue or FloatValue (sections 2.9.1 and 2.9.2).
func (l *lexer) number() error {
	n, k := 0, integer
	digits := func() bool {
		from := n
		for n < len(l.src) && isDigit(l.src[n]) {
			n++
		}
		return n > from
	}
	at := func(set string) bool { return n < len(l.src) && strings.IndexByte(set, l.src[n]) >= 0 }
	if at("-") {
		n++
	}
	if !digits() {
		return errSyntax
	}
	if at(".") {
		n++
		if k = float; !digits() {
			return errSyntax
		}
	}
	if at("eE") {
		n++
		if at("+-") {
			n++
		}
		if k = float; !digits() {
			return errSyntax
		}
	}
	whole := strings.TrimPrefix(l.src[:n], "-")
	if len(whole) > 1 && whole[0] == '0' && isDigit(whole[1]) || n < len(l.src) && (isNameStart(l.src[n]) || l.src[n] == '.') {
		return errSyntax
	}
	l.next = token{k, l.take(n)}
	return nil
}

// quoted reads a string in one pair of quotes (section 2.9.4).
func (l *lexer) quoted() error {
	l.take(1)
	n := 0
	for n < len(l.src) && l.src[n] != '"' && l.src[n] != '\\' {
		if l.src[n] < ' ' && l.src[n] != '\t' {
			return errSyntax
		}
		n++
	}
	if n < len(l.src) && l.src[n] == '"' {
		l.next = token{text, l.take(n)}
		l.take(1)
		return nil
	}
	b := []byte(l.take(n))
	for l.src != "" {
		switch c := l.src[0]; {
		case c == '"':
			l.take(1)
			l.next = token{text, string(b)}
			return nil
		case c == '\\':
			r, err := l.escape()
			if err != nil {
				return err
			}
			b = utf8.AppendRune(b, r)
		case c < ' ' && c != '\t':
			return errSyntax
		default:
			b = append(b, c)
			l.take(1)
		}
	}
	return errSyntax
}

// escape reads an escape sequence. Two units of UTF-16 that form a pair are one character; a unit of
// a pair alone is refused.
func (l *lexer) escape() (rune, error) {
	if len(l.src) < 2 {
		return 0, errSyntax
	}
	if c := l.src[1]; c != 'u' {
		i := strings.IndexByte(`"\/bfnrt`, c)
		if i < 0 {
			return 0, errSyntax
		}
		l.take(2)
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	r, ok := l.unit()
	if ok && utf16.IsSurrogate(r) {
		low, is := l.unit()
		r = utf16.DecodeRune(r, low)
		ok = is && r != utf8.RuneError
	}
	if !ok {
		return 0, errSyntax
	}
	return r, nil
}

// unit reads \u and four hexadecimal digits.
func (l *lexer) unit() (r rune, ok bool) {
	if len(l.src) < 6 || l.src[0] != '\\' || l.src[1] != 'u' {
		return 0, false
	}
	for _, c := range []byte(l.src[2:6]) {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	l.take(6)
	return r, true
}

// block reads a string in three pairs of quotes.
func (l *lexer) block() error {
	l.take(3)
	var raw strings.Builder
	for {
		i := strings.Index(l.src, `"""`)
		if i < 0 {
			return errSyntax
		}
		escaped := i > 0 && l.src[i-1] == '\\'
		if !escaped {
			raw.WriteString(l.take(i))
			l.take(3)
			break
		}
		raw.WriteString(l.take(i)[:i-1])
		raw.WriteString(l.take(3))
	}
	if strings.HasPrefix(l.src, `"`) {
		return errSyntax // a lexer that takes the last three quotes for the end reads another value
	}
	value := strings.ReplaceAll(raw.String(), "\r\n", "\n")
	if strings.Contains(value, "\r") {
		return errReturn
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' }) {
		return errSyntax
	}
	l.next = token{text, dedent(value)}
	return nil
}

// dedent is BlockStringValue of section 2.9.4: it removes the common indentation of all lines but
// the first, and blank lines at both ends.
func dedent(raw string) string {
	lines := strings.Split(raw, "\n")
	common := -1
	for _, line := range lines[1:] {
		if n := indent(line); n < len(line) && (common < 0 || n < common) {
			common = n
		}
	}
	for i := 1; i < len(lines) && common > 0; i++ {
		lines[i] = lines[i][min(common, len(lines[i])):]
	}
	for len(lines) > 0 && indent(lines[0]) == len(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && indent(lines[len(lines)-1]) == len(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}

// indent returns the number of spaces and tabs that a line begins with.
func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
