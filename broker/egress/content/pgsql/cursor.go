package pgsql

import (
	"slices"
	"strings"
	"unicode"
)

// cursor reads the tokens of one statement after another.
type cursor struct {
	sql, lower string
	all        []token
	tokens     []token // to the end of the statement
	at         int     // index in tokens
	fresh      int     // index of the token behind DISTINCT ON (...), which ends no operand
	failed     bool
}

// fail makes the statement unknown.
func (c *cursor) fail() { c.failed = true }

// peek returns the token n places ahead.
func (c *cursor) peek(n int) token {
	if c.failed || c.at+n >= len(c.tokens) {
		return token{}
	}
	return c.tokens[c.at+n]
}

func (c *cursor) done() bool { return c.peek(0).kind == end }

// atQuery reports whether the token n places ahead begins a query. VALUES without a parenthesis can
// be an option of EXPLAIN.
func (c *cursor) atQuery(n int) bool {
	w := c.wordAt(n)
	return w == "select" || w == "with" || w == "table" || w == "values" && c.signAt(n+1) == '('
}

// wordAt returns the word n places ahead in lower case, or "".
func (c *cursor) wordAt(n int) string {
	if t := c.peek(n); t.kind == word {
		return c.lower[t.from:t.to]
	}
	return ""
}

// signAt returns the character n places ahead, or 0.
func (c *cursor) signAt(n int) byte {
	if t := c.peek(n); t.kind == sign {
		return c.sql[t.from]
	}
	return 0
}

// accept skips words if they follow.
func (c *cursor) accept(words ...string) bool {
	for n, w := range words {
		if c.wordAt(n) != w {
			return false
		}
	}
	c.at += len(words)
	return true
}

// acceptAny skips one of the words if it follows, and returns it.
func (c *cursor) acceptAny(words ...string) string {
	if w := c.wordAt(0); w != "" && slices.Contains(words, w) {
		c.at++
		return w
	}
	return ""
}

// acceptSign skips a character if it follows.
func (c *cursor) acceptSign(sign byte) bool {
	if c.signAt(0) != sign {
		return false
	}
	c.at++
	return true
}

// expect skips a character, and fails if it does not follow.
func (c *cursor) expect(sign byte) {
	if !c.acceptSign(sign) {
		c.fail()
	}
}

// expectWord skips a word, and fails if it does not follow.
func (c *cursor) expectWord(w string) {
	if !c.accept(w) {
		c.fail()
	}
}

// identifier skips an identifier and returns it as the server stores it. Any keyword counts as one
// if label is set, as after a period or AS; otherwise reserved words do not.
func (c *cursor) identifier(label bool) string {
	t := c.peek(0)
	var name string
	switch {
	case t.kind == quoted:
		name = strings.ReplaceAll(c.sql[t.from+1:t.to-1], `""`, `"`)
	case t.kind == word && (label || !reserved(c.lower[t.from:t.to])):
		if name = c.lower[t.from:t.to]; strings.ContainsFunc(name, unicode.IsUpper) { // some locales fold it
			c.fail()
		}
	default:
		c.fail()
	}
	if len(name) > maxName {
		c.fail()
	}
	c.at++
	return name
}

// name skips a name of up to three parts, such as public.orders. It fails if no identifier follows.
func (c *cursor) name() []string {
	parts := []string{c.identifier(false)}
	for c.acceptSign('.') {
		parts = append(parts, c.identifier(true))
	}
	if len(parts) > 3 {
		c.fail()
	}
	return parts
}

// mentions reports whether a word follows before a place.
func (c *cursor) mentions(w string, to int) bool {
	return slices.ContainsFunc(c.tokens[c.at:min(to, len(c.tokens))], func(t token) bool { return t.kind == word && c.lower[t.from:t.to] == w })
}

// skipTo skips names and constants, and the word behind them.
func (c *cursor) skipTo(w string) {
	for !c.accept(w) {
		if k := c.peek(0).kind; k == end || k == sign && c.signAt(0) != ',' {
			c.fail()
			return
		}
		c.at++
	}
}

// plain skips names and constants.
func (c *cursor) plain() {
	for !c.done() {
		if sign := c.signAt(0); sign != 0 && strings.IndexByte(",=.-+*", sign) < 0 {
			c.fail()
		}
		c.at++
	}
}

// words returns the detail with the first two words of a statement.
func (c *cursor) words() map[string]string {
	s := c.wordAt(0)
	if w := c.wordAt(1); s != "" && w != "" {
		s += " " + w
	}
	if len(s) > 2*maxName {
		s = ""
	}
	return map[string]string{"statement": s}
}

// isUTF8 reports whether a setting gets the value UTF8.
func (c *cursor) isUTF8(from int) bool {
	if c.failed || from >= len(c.tokens) {
		return false
	}
	last := c.tokens[len(c.tokens)-1]
	value := strings.Trim(c.lower[last.from:last.to], "'")
	return len(c.tokens)-from <= 2 && (value == "utf8" || value == "utf-8")
}

// afterDistinct reports whether the FROM before the current token belongs to IS [NOT] DISTINCT FROM.
func (c *cursor) afterDistinct() bool {
	i := c.at - 2
	is := func(w string) bool {
		if i < 0 || c.tokens[i].kind != word || c.lower[c.tokens[i].from:c.tokens[i].to] != w {
			return false
		}
		i--
		return true
	}
	return is("distinct") && (is("is") || is("not") && is("is"))
}

// behind reports whether the token before the current one is one of the words.
func (c *cursor) behind(words ...string) bool {
	if c.at == 0 {
		return false
	}
	t := c.tokens[c.at-1]
	return t.kind == word && slices.Contains(words, c.lower[t.from:t.to])
}

// behindOperand reports whether the token before the current one, or before a NOT, ends an operand,
// so that the current word is an operator.
func (c *cursor) behindOperand() bool {
	i := c.at - 1
	if i >= 0 && c.lower[c.tokens[i].from:c.tokens[i].to] == "not" {
		i--
	}
	if i < 0 || c.at == c.fresh {
		return false
	}
	switch t := c.tokens[i]; t.kind {
	case word:
		w := c.lower[t.from:t.to]
		return !reserved(w) || slices.Contains([]string{"end", "false", "isnull", "notnull", "null", "true"}, w)
	case sign:
		return c.sql[t.from] == ')' || c.sql[t.from] == ']'
	}
	return true
}

// dependsOnRows reports whether each alternative of a condition names something that may be a column.
// x = x names nothing: it is true for every row with a value.
func (c *cursor) dependsOnRows(from, to int) bool {
	depth, named := 0, false
	for i := from; i < to && i < len(c.tokens); i++ {
		t := c.tokens[i]
		w := c.lower[t.from:t.to]
		switch n := c.same(i, to); {
		case n > 0:
			i += n - 1
		case t.kind == quoted:
			named = true
		case t.kind == sign && (w == "(" || w == "["):
			depth++
		case t.kind == sign && (w == ")" || w == "]"):
			depth--
		case t.kind == sign && w == ":":
			i++ // the next colon, or a bound
			if i+1 < len(c.tokens) && c.sql[c.tokens[i].from] == ':' {
				i++ // the type
			}
		case t.kind != word:
		case depth == 0 && w == "returning":
			return named
		case depth == 0 && w == "or":
			if !named {
				return false
			}
			named = false
		case !reserved(w) && !(i+1 < len(c.tokens) && c.sql[c.tokens[i+1].from] == '('):
			named = true
		}
	}
	return named
}

// same returns the number of tokens of x = x at a place, in which x is a name of up to three parts. Both
// sides have the same spelling, except for the case of letters outside of quotes. 0 = another expression
// is there, or x = x is a part of a longer one.
func (c *cursor) same(at, to int) int {
	is := func(i int, words ...string) bool {
		return i >= to || i >= len(c.tokens) || slices.Contains(words, c.lower[c.tokens[i].from:c.tokens[i].to])
	}
	if !is(at-1, "where", "on", "and", "or", "not", "(") {
		return 0
	}
	for n := 1; n <= 5 && at+2*n < min(to, len(c.tokens)); n += 2 {
		left, right := c.tokens[at:at+n], c.tokens[at+n+1:at+2*n+1]
		equal := slices.EqualFunc(left, right, func(x, y token) bool {
			return c.sql[x.from:x.to] == c.sql[y.from:y.to] || x.kind == word && y.kind == word && c.lower[x.from:x.to] == c.lower[y.from:y.to]
		})
		names := !slices.ContainsFunc(left, func(t token) bool { return t.kind != word && t.kind != quoted && c.sql[t.from] != '.' })
		if equal && names && is(at+n, "=") && is(at+2*n+1, "and", "or", ")", "returning") {
			return 2*n + 1
		}
	}
	return 0
}

// typeName skips the name of a type. Its modifiers in parentheses follow as an expression.
func (c *cursor) typeName() {
	first := c.wordAt(0)
	c.identifier(true)
	c.typeWords(first)
	for c.acceptSign('.') {
		c.identifier(true)
	}
}

// typeWords skips the second word of a type that may have a length, such as CHARACTER VARYING (10).
func (c *cursor) typeWords(first string) {
	if slices.Contains([]string{"character", "char", "bit", "nchar", "national"}, first) {
		c.acceptAny("character", "char")
		c.accept("varying")
	}
}
