package pgsql

import (
	"slices"
	"strings"
	"unicode"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// parser parses one statement of a text after another. A statement that it does not understand
// fails: the parser then sees the end of the statement, and the facts name an unknown operation.
type parser struct {
	sql, lower string
	all        []token
	tokens     []token // to the end of the statement
	at         int     // index in tokens
	set        Settings
	failed     bool
	depth      int // of calls of level

	facts   content.Facts
	tooMany bool

	fresh  int      // index of the token behind DISTINCT ON (...), which ends no operand
	ctes   []string // names of WITH that are visible here
	locked bool     // the statement locks the rows that it reads
	change change   // the INSERT, UPDATE, DELETE or MERGE that contains the current token
}

// fail makes the statement unknown.
func (p *parser) fail() { p.failed = true }

// peek returns the token n places ahead.
func (p *parser) peek(n int) token {
	if p.failed || p.at+n >= len(p.tokens) {
		return token{}
	}
	return p.tokens[p.at+n]
}

func (p *parser) done() bool { return p.peek(0).kind == end }

// wordAt returns the word n places ahead in lower case, or "".
func (p *parser) wordAt(n int) string {
	if t := p.peek(n); t.kind == word {
		return p.lower[t.from:t.to]
	}
	return ""
}

// signAt returns the character n places ahead, or 0.
func (p *parser) signAt(n int) byte {
	if t := p.peek(n); t.kind == sign {
		return p.sql[t.from]
	}
	return 0
}

// accept skips words if they follow.
func (p *parser) accept(words ...string) bool {
	for n, w := range words {
		if p.wordAt(n) != w {
			return false
		}
	}
	p.at += len(words)
	return true
}

// acceptAny skips one of the words if it follows, and returns it.
func (p *parser) acceptAny(words ...string) string {
	if w := p.wordAt(0); w != "" && slices.Contains(words, w) {
		p.at++
		return w
	}
	return ""
}

// acceptSign skips a character if it follows.
func (p *parser) acceptSign(c byte) bool {
	if p.signAt(0) != c {
		return false
	}
	p.at++
	return true
}

// expect skips a character, and fails if it does not follow.
func (p *parser) expect(c byte) {
	if !p.acceptSign(c) {
		p.fail()
	}
}

// expectWord skips a word, and fails if it does not follow.
func (p *parser) expectWord(w string) {
	if !p.accept(w) {
		p.fail()
	}
}

// identifier skips an identifier and returns it as the server stores it. Any keyword counts as one
// if label is set, as after a period or AS; otherwise reserved words do not.
func (p *parser) identifier(label bool) string {
	t := p.peek(0)
	var name string
	switch {
	case t.kind == quoted:
		name = strings.ReplaceAll(p.sql[t.from+1:t.to-1], `""`, `"`)
	case t.kind == word && (label || !reserved(p.lower[t.from:t.to])):
		if name = p.lower[t.from:t.to]; strings.ContainsFunc(name, unicode.IsUpper) { // some locales fold it
			p.fail()
		}
	default:
		p.fail()
	}
	if len(name) > maxName {
		p.fail()
	}
	p.at++
	return name
}

// name skips a name of up to three parts, such as public.orders. It fails if no identifier follows.
func (p *parser) name() []string {
	parts := []string{p.identifier(false)}
	for p.acceptSign('.') {
		parts = append(parts, p.identifier(true))
	}
	if len(parts) > 3 {
		p.fail()
	}
	return parts
}

// table returns the object that a name refers to. The third part, the database, can only be that of
// the session.
func (p *parser) table(name []string) string {
	last := name[len(name)-1]
	switch {
	case len(name) > 1:
		return quote(name[len(name)-2]) + "." + quote(last)
	case p.set.Schema == "":
		return "?." + quote(last)
	case strings.HasPrefix(last, "pg_") && contains(relations(), last): // pg_catalog is searched first
		return "pg_catalog." + last
	}
	return quote(p.set.Schema) + "." + quote(last)
}

// quote returns an identifier as SQL writes it, so that a period separates two identifiers only.
func quote(name string) string {
	for i := range len(name) {
		if c := name[i]; 'a' <= c && c <= 'z' || c == '_' || i > 0 && (isDigit(c) || c == '$') {
			continue
		}
		return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return name
}

// add adds an operation, once.
func (p *parser) add(action, object string, details map[string]string) {
	if slices.ContainsFunc(p.facts.Operations, func(o content.Operation) bool {
		return o.Action == action && o.Object == object && o.Details["where"] == details["where"] && o.Details["statement"] == details["statement"]
	}) {
		return
	}
	if len(p.facts.Operations) == content.MaxOperations {
		p.tooMany = true
		return
	}
	p.facts.Operations = append(p.facts.Operations, content.Operation{Action: action, Object: object, Details: details})
}
