package policy

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/scopes/nearest"
)

// source is the text of a policy file. The parser gives the position of a policy alone, and the validator none: source
// finds the word that a problem names.
type source struct {
	file string
	text []byte
	code []byte // text with spaces in place of comments and quoted text
}

func newSource(file string, text []byte) source {
	return source{file, text, masked(text)}
}

// masked returns text with spaces in place of comments and quoted text. Line breaks stay.
func masked(text []byte) []byte {
	out := bytes.Clone(text)
	quoted, comment := false, false
	for i := 0; i < len(out); i++ {
		switch c := text[i]; {
		case c == '\n':
			comment = false
			continue
		case comment:
		case quoted && c == '\\' && i+1 < len(out):
			out[i] = ' '
			i++
			if text[i] == '\n' {
				continue
			}
		case c == '"':
			quoted = !quoted
			continue
		case quoted:
		case c == '/' && i+1 < len(out) && text[i+1] == '/':
			comment = true
		default:
			continue
		}
		out[i] = ' '
	}
	return out
}

// statements returns the beginnings of the policies: the first word after each semicolon outside of brackets. The last
// element is the end of the text.
func (s source) statements() []int {
	begins := []int{}
	depth, open := 0, false
	for i, c := range s.code {
		if !open && c > ' ' {
			begins, open = append(begins, i), true
		}
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(0, depth-1)
		case ';':
			if depth == 0 {
				open = false
			}
		}
	}
	return append(begins, len(s.text))
}

// offset is the inverse of at: the offset of a line and column, which count from 1.
func (s source) offset(line, column int) int {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(s.text[at:], '\n')
		if n < 0 {
			return len(s.text)
		}
		at += n + 1
	}
	for i := range string(s.text[at:]) { // columns count characters
		if column--; column < 1 {
			return at + i
		}
	}
	return len(s.text)
}

// problem returns a problem at an offset.
func (s source) problem(offset int, text string) Problem {
	before := s.text[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return Problem{File: s.file, Line: 1 + bytes.Count(before, []byte("\n")), Column: 1 + len([]rune(string(before[start:]))), Text: text}
}

var (
	quotedWord     = lazyregexp.New("`([^`]+)`")
	annotationWord = lazyregexp.New(`^@[A-Za-z_]+`)
	entityWord     = lazyregexp.New(`^[A-Za-z_:]+::"[^"]*"`)
)

// locate returns a problem at the word that it names, in the policy that begins at from. If the word is not found, the
// problem is at the beginning of the policy.
func (s source) locate(from int, text string) Problem {
	word := annotationWord.FindString(text)
	if word == "" {
		word = entityWord.FindString(text)
	}
	if m := quotedWord.FindStringSubmatch(text); word == "" && m != nil {
		word = strings.TrimPrefix(m[1], "has ")
	}
	attribute := strings.HasPrefix(text, "attribute ")
	if attribute {
		word = word[strings.LastIndexByte(word, '.')+1:] // "" for an attribute such as context["a."]
	}
	if word == "" {
		return s.problem(from, text)
	}
	to := len(s.text)
	for _, begin := range s.statements() {
		if begin > from {
			to = begin
			break
		}
	}
	at := from
	for _, where := range [][]byte{s.code, s.text} { // a word between quotes is in text alone
		if i := find(where[from:to], word, attribute); i >= 0 {
			at = from + i
			break
		}
	}
	return s.problem(at, text+suggestion(word, attribute))
}

// find returns the position of the whole word in text, or -1. For an attribute it prefers a position after a dot.
func find(text []byte, word string, attribute bool) int {
	first := -1
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(word))
		if i < 0 {
			return first
		}
		i += at
		at = i + 1
		if i > 0 && isWord(text[i-1]) && isWord(word[0]) || i+len(word) < len(text) && text[i+len(word)] != ':' && isWord(text[i+len(word)]) && isWord(word[len(word)-1]) {
			continue
		}
		if !attribute || bytes.HasSuffix(bytes.TrimRight(text[:i], " \t\r\n"), []byte(".")) {
			return i
		}
		if first < 0 {
			first = i
		}
	}
}

func isWord(c byte) bool {
	return c == '_' || c == ':' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

var (
	// types are the entity types of the schema.
	types = []string{string(typeAttestor), string(typeSandbox), string(typeProvider), string(typeResource), string(typeTask), string(typeAction)}
	// attributes are the names of all attributes of the schema.
	attributes = attributeNames()
	// usual are the actions that the schema declares.
	usual = []string{"read", "list", "get", "write", "create", "update", "delete"}
)

func attributeNames() (names []string) {
	for _, m := range regexp.MustCompile(`([a-z_]+): *(?:String|Long|Bool|Set|Task|\{)`).FindAllStringSubmatch(schemaText, -1) {
		names = append(names, m[1])
	}
	return names
}

// suggestion returns the end of a problem that asks whether another word is meant, "" without one.
func suggestion(word string, attribute bool) string {
	known := types
	if attribute {
		known = attributes
	}
	best := nearest.Of(word, known)
	if !attribute && !strings.Contains(word, "::") {
		best = nearest.Of(namespace+"::"+word, known)
	}
	if best == "" || best == word {
		return ""
	}
	return "; did you mean " + best + "?"
}

// unusual returns a note for an action that looks like a typo of a usual one. The note is not an error, because each provider has
// actions of its own.
func unusual(action string) string {
	const short = 4 // "set" is not a typo of "get"
	if best := nearest.Of(action, usual); len(action) >= short && best != "" && best != action {
		return string(typeAction) + `::"` + action + `": not one of the usual actions; did you mean "` + best + `"?`
	}
	return ""
}
