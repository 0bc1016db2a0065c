package pgsql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// kind is the kind of a token.
type kind uint8

const (
	end    kind = iota // of the statement
	word               // an unquoted identifier or a keyword
	quoted             // a quoted identifier
	text               // a string constant of any form
	number             // also a parameter such as $1
	sign               // one character: an operator character or one of ( ) [ ] , ; . :
)

// token is a token at its place in the text.
type token struct {
	kind     kind
	from, to int32
}

// lexer splits a text into tokens as src/backend/parser/scan.l does (PostgreSQL 13 to 18). It
// refuses a text that these versions split differently.
type lexer struct {
	in     string
	at     int
	set    Settings
	tokens []token
}

var errTooLong = content.Refuse(fmt.Sprintf("the SQL text is longer than %d MiB", maxText>>20))

// lex returns the tokens of a text.
func lex(in string, set Settings) ([]token, error) {
	if len(in) > maxText {
		return nil, errTooLong
	}
	if err := checkBytes(in, set); err != nil {
		return nil, err
	}
	l := &lexer{in: in, set: set, tokens: make([]token, 0, 16+len(in)/6)}
	for {
		if more, err := l.skipSpace(); err != nil || !more {
			return l.tokens, err
		}
		from := l.at
		k, err := l.next()
		if err != nil {
			return nil, err
		}
		l.tokens = append(l.tokens, token{k, int32(from), int32(l.at)})
	}
}

// checkBytes refuses a text whose bytes the server may read as other characters: it converts them
// from client_encoding before it splits them, and some encodings contain ASCII bytes in other
// characters.
func checkBytes(in string, set Settings) error {
	switch ascii := strings.IndexFunc(in, func(r rune) bool { return r >= utf8.RuneSelf }) < 0; {
	case strings.IndexByte(in, 0) >= 0:
		return content.Refuse("the SQL text contains a NUL byte")
	case !ascii && !set.UTF8:
		return content.Refuse("the SQL text is not ASCII, and the encoding of the session is not known to be UTF8")
	case !utf8.ValidString(in):
		return content.Refuse("the SQL text is not valid UTF-8")
	}
	return nil
}

// skipSpace skips white space and comments, and reports whether a token follows. A vertical tab is
// white space from version 16 on, and an error before.
func (l *lexer) skipSpace() (more bool, err error) {
	for l.at < len(l.in) {
		switch rest := l.in[l.at:]; {
		case isSpace(rest[0]):
			l.at++
		case strings.HasPrefix(rest, "--"):
			l.at += lineLength(rest)
		case strings.HasPrefix(rest, "/*"):
			if err := l.comment(); err != nil {
				return false, err
			}
		default:
			return true, nil
		}
	}
	return false, nil
}

// comment skips a comment in /* */, which may contain others.
func (l *lexer) comment() error {
	for depth := 0; l.at+1 < len(l.in); {
		switch l.in[l.at : l.at+2] {
		case "/*":
			depth++
			l.at += 2
		case "*/":
			depth--
			if l.at += 2; depth == 0 {
				return nil
			}
		default:
			l.at++
		}
	}
	return content.Refuse("the SQL text has a comment without an end")
}

// next skips one token and returns its kind.
func (l *lexer) next() (kind, error) {
	rest := l.in[l.at:]
	switch c := rest[0]; {
	case c == '\'':
		return text, l.plain()
	case c == '"':
		return quoted, l.delimited()
	case c == '$':
		return l.dollar()
	case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]):
		return number, l.number()
	case isStart(c):
		return l.identifier()
	case strings.IndexByte("()[],;.:+-*/%^<>=~!@#&|`?", c) >= 0:
		l.at++
		return sign, nil
	}
	return end, content.Refuse("the SQL text contains a character that is no part of PostgreSQL's syntax")
}

// identifier skips an identifier or a keyword, or a constant that begins with letters.
func (l *lexer) identifier() (kind, error) {
	rest := l.in[l.at:]
	n := 1
	for n < len(rest) && (isStart(rest[n]) || isDigit(rest[n]) || rest[n] == '$') {
		n++
	}
	after := rest[n:]
	switch first := rest[0] | 0x20; {
	case n == 1 && first == 'u' && strings.HasPrefix(after, "&'"):
		l.at += 2
		return text, l.quotes(false)
	case n == 1 && first == 'u' && strings.HasPrefix(after, `&"`):
		return end, content.Refuse(`the SQL text names something as U&"...": write the name as it is`)
	case n == 1 && first == 'e' && strings.HasPrefix(after, "'"):
		l.at++
		return text, l.quotes(true)
	case n == 1 && (first == 'b' || first == 'x') && strings.HasPrefix(after, "'"):
		l.at++
		return text, l.digits()
	}
	l.at += n
	return word, nil
}

// plain skips '...'. A backslash directly before a quote decides where it ends, unless
// standard_conforming_strings is on.
func (l *lexer) plain() error {
	from := l.at
	if err := l.quotes(false); err != nil {
		return err
	}
	if !l.set.StandardStrings && strings.Contains(l.in[from:l.at], `\'`) {
		return content.Refuse("a string has a backslash before a quote, and standard_conforming_strings is not known to be on")
	}
	return nil
}

// quotes skips a constant in quotes, from its first quote on. After white space with a line break,
// another quote continues the constant, by the rules of its first part.
func (l *lexer) quotes(escapes bool) error {
	for l.at++; l.at < len(l.in); l.at++ {
		switch c := l.in[l.at]; {
		case c == '\\' && escapes:
			l.at++
		case c != '\'':
		case l.at+1 < len(l.in) && l.in[l.at+1] == '\'':
			l.at++
		default:
			l.at++
			if !l.continued() {
				return nil
			}
		}
	}
	return content.Refuse("the SQL text has a string without an end")
}

// continued moves to the quote that continues a constant, if there is one.
func (l *lexer) continued() bool {
	i, line := l.at, false
	for i < len(l.in) {
		switch c := l.in[i]; {
		case isSpace(c):
			line = line || c == '\n' || c == '\r'
			i++
		case strings.HasPrefix(l.in[i:], "--"):
			i += lineLength(l.in[i:])
		case c == '\'' && line:
			l.at = i
			return true
		default:
			return false
		}
	}
	return false
}

// digits skips the rest of a bit string, B'...' or X'...', which has neither escapes nor doubled quotes.
func (l *lexer) digits() error {
	from := l.at
	if err := l.quotes(false); err != nil {
		return err
	}
	if strings.Trim(l.in[from+1:l.at-1], "0123456789abcdefABCDEF") != "" {
		return content.Refuse("the SQL text has a bit string with something other than digits")
	}
	return nil
}

// delimited skips "...".
func (l *lexer) delimited() error {
	from := l.at
	for l.at++; l.at < len(l.in); l.at++ {
		if l.in[l.at] != '"' {
			continue
		}
		if l.at++; l.at == len(l.in) || l.in[l.at] != '"' {
			if l.at == from+2 {
				return content.Refuse("the SQL text has an empty name")
			}
			return nil
		}
	}
	return content.Refuse("the SQL text has a quoted name without an end")
}

// dollar skips a parameter or a constant in dollar quotes.
func (l *lexer) dollar() (kind, error) {
	rest := l.in[l.at+1:]
	n := 0
	for n < len(rest) && isDigit(rest[n]) {
		n++
	}
	if n > 0 {
		l.at += 1 + n
		return number, l.separate()
	}
	for n < len(rest) && (isStart(rest[n]) || n > 0 && isDigit(rest[n])) {
		n++
	}
	if n == len(rest) || rest[n] != '$' {
		return end, content.Refuse("the SQL text has a $ that begins neither a parameter nor a string")
	}
	tag := l.in[l.at : l.at+n+2]
	i := strings.Index(l.in[l.at+len(tag):], tag)
	if i < 0 {
		return end, content.Refuse("the SQL text has a string in dollar quotes without an end")
	}
	l.at += 2*len(tag) + i
	return text, nil
}

// number skips a decimal number. Other numbers, such as 0xff and 1_000, are tokens from version 16
// on and something else before.
func (l *lexer) number() error {
	digits := func() {
		for l.at < len(l.in) && isDigit(l.in[l.at]) {
			l.at++
		}
	}
	digits()
	if l.at < len(l.in) && l.in[l.at] == '.' {
		l.at++
		digits()
	}
	if rest := l.in[l.at:]; len(rest) > 1 && rest[0]|0x20 == 'e' {
		sign := 0
		if rest[1] == '+' || rest[1] == '-' {
			sign = 1
		}
		if len(rest) > 1+sign && isDigit(rest[1+sign]) {
			l.at += 1 + sign
			digits()
		}
	}
	return l.separate()
}

// separate refuses a number that another token follows without a gap: versions before 15 accept
// 1E'...' as a number and a string with escapes.
func (l *lexer) separate() error {
	if l.at < len(l.in) && (isStart(l.in[l.at]) || isDigit(l.in[l.at]) || strings.IndexByte("$'\"", l.in[l.at]) >= 0) {
		return content.Refuse("the SQL text has a number that does not end before the next word")
	}
	return nil
}

// lineLength returns the length of a comment that ends with its line.
func lineLength(s string) int {
	if i := strings.IndexAny(s, "\n\r"); i >= 0 {
		return i
	}
	return len(s)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isStart reports whether a byte can begin an identifier.
func isStart(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c >= utf8.RuneSelf
}
