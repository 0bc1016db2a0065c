package pgsql

import (
	"slices"
	"strings"
)

// place is the clause to which the next token of a level belongs.
type place int

const (
	inExpression place = iota
	inFrom             // an item of a FROM list begins here
	inJoin             // behind an item of a FROM list: a comma and JOIN begin another one
	inGroupBy
	inArguments // of EXTRACT and its like, in which FROM and FOR separate arguments
)

// level parses a query or an expression up to the end of its parentheses or of the statement.
func (p *parser) level(at place) {
	if p.depth++; p.depth > maxDepth {
		p.fail()
	}
	visible := len(p.ctes)
	if p.wordAt(0) == "with" {
		p.with()
		if p.atChange() {
			p.changes()
		}
	}
	for !p.done() && p.signAt(0) != ')' && p.signAt(0) != ']' {
		if at == inFrom {
			p.fromItem()
			at = inJoin
			continue
		}
		at = p.step(at)
	}
	p.ctes = p.ctes[:visible]
	p.depth--
}

// group parses the rest of a group in parentheses or brackets.
func (p *parser) group(at place, closing byte) {
	p.level(at)
	p.expect(closing)
}

// parentheses parses an expression in parentheses, which must follow.
func (p *parser) parentheses() {
	p.expect('(')
	p.group(inExpression, ')')
}

// acceptGroup parses an expression in parentheses if one follows.
func (p *parser) acceptGroup() {
	if p.acceptSign('(') {
		p.group(inExpression, ')')
	}
}

// step parses one part of a level and returns the place behind it.
func (p *parser) step(at place) place {
	switch t := p.peek(0); t.kind {
	case word:
		return p.keyword(at)
	case quoted:
		p.reference(at)
	case sign:
		return p.sign(at)
	default:
		p.at++
	}
	return at
}

// sign parses a part that begins with a character.
func (p *parser) sign(at place) place {
	c := p.signAt(0)
	p.at++
	switch {
	case c == '(':
		p.group(inExpression, ')')
	case c == '[':
		p.group(inExpression, ']')
	case c == ',' && at == inJoin:
		return inFrom
	case c == '.': // behind a parenthesis: a column, or all of them
		if p.acceptSign('*') {
			break
		}
		if p.column(p.identifier(true)); p.signAt(0) == '(' {
			p.fail()
		}
	case c == ':' && p.signAt(0) == ':' && p.tokens[p.at].from == p.tokens[p.at-1].to:
		p.at++
		p.typeName()
	case c == ';':
		p.fail()
	}
	return at
}

// keyword parses a part that begins with a word.
func (p *parser) keyword(at place) place {
	switch w := p.wordAt(0); w {
	case "select":
		p.at++
		if p.accept("distinct", "on") {
			p.parentheses()
			p.fresh = p.at
		}
		return inExpression
	case "from":
		p.at++
		if at == inArguments || p.afterDistinct() {
			return at
		}
		return inFrom
	case "where":
		p.at++
		p.change.condition(p.at, p.depth)
		return inExpression
	case "group":
		p.at++
		p.expectWord("by")
		return inGroupBy
	case "order":
		p.at++
		p.accept("by") // or WITHIN GROUP (ORDER BY), WITH ORDER
		return inExpression
	case "fetch":
		p.at++
		p.acceptAny("first", "next")
		return inExpression
	case "having", "window", "limit", "offset", "union", "intersect", "except", "values":
		p.at++
		return inExpression
	case "join":
		return p.join(at)
	case "table":
		p.at++
		p.accept("only")
		p.reads(p.name())
		p.acceptSign('*')
		return inExpression
	case "into":
		p.selectInto()
	case "for":
		p.at++
		if at != inArguments {
			p.lockRows()
		}
	case "with":
		p.at++
		if p.acceptAny("cascaded", "check", "data", "local", "no", "ordinality", "ties", "time", "unique", "without") == "" {
			p.fail()
		}
	case "as":
		p.at++
		if k := p.peek(0).kind; k == word || k == quoted {
			p.typeName() // or an alias
		}
	case "returning", "on", "then":
		return p.changeKeyword(at)
	default:
		p.reference(at)
	}
	return at
}

// join parses JOIN, or the call of a function with this name.
func (p *parser) join(at place) place {
	switch {
	case at != inJoin:
		p.reference(at)
		return at
	case p.signAt(1) == '(' && !p.behindOperand() && !p.behind("cross", "full", "inner", "left", "natural", "outer", "right"):
		p.fail()
	}
	p.at++
	return inFrom
}

// reference parses a column, a keyword of an expression, or a call.
func (p *parser) reference(at place) {
	w := p.wordAt(0)
	switch {
	case at == inGroupBy && (p.accept("grouping", "sets") || p.signAt(1) == '(' && p.acceptAny("cube", "rollup") != ""):
		p.expect('(')
		p.group(inGroupBy, ')')
		return
	case p.accept("collation", "for"), p.accept("exclude", "group"), p.accept("partition", "by"):
		return
	case w == "treat" && p.signAt(1) == '(': // calls the function of pg_catalog that has the type's name (gram.y)
		p.fail()
		return
	case w == "operator" && p.signAt(1) == '(':
		p.at += 2
		p.operator()
		return
	case w == "ilike" && p.signAt(1) == '(' && p.behindOperand():
		p.at++
		return
	case slices.Contains([]string{"extract", "substring", "trim", "overlay", "position"}, w) && p.signAt(1) == '(':
		p.at += 2
		p.group(inArguments, ')')
		return
	case p.signAt(1) != '.' && neverFunction(w), p.signAt(1) != '.' && p.signAt(1) != '(' && reserved(w):
		p.at++
		p.typeWords(w)
		return
	}
	name := []string{p.identifier(true)}
	for p.acceptSign('.') {
		if p.acceptSign('*') {
			return
		}
		if name = append(name, p.identifier(true)); len(name) > 5 { // database.schema.table.column.field
			p.fail()
		}
	}
	switch {
	case p.signAt(0) == '(':
		p.call(name)
	case len(name) > 1:
		p.column(name[len(name)-1])
	}
}

// operator parses the rest of OPERATOR(schema.+).
func (p *parser) operator() {
	schema := ""
	for p.peek(0).kind == word || p.peek(0).kind == quoted {
		schema = p.identifier(true)
		p.expect('.')
	}
	from := p.at
	for c := p.signAt(0); c != 0 && strings.IndexByte("+-*/<>=~!@#%^&|`?", c) >= 0; c = p.signAt(0) {
		p.at++
	}
	if p.at == from || p.failed {
		p.fail()
		return
	}
	if schema != "" && schema != "pg_catalog" {
		p.add(Call, quote(schema)+"."+p.sql[p.tokens[from].from:p.tokens[p.at-1].to], nil)
	}
	p.expect(')')
}

// call parses the parentheses behind the name of a function, and the clauses of an aggregate or
// window function.
func (p *parser) call(name []string) {
	if !harmless(name) {
		p.add(Call, named(name), nil)
	}
	p.parentheses()
	if p.accept("within", "group") {
		p.parentheses()
	}
	if p.accept("filter") {
		p.parentheses()
	}
	if !p.accept("respect", "nulls") {
		p.accept("ignore", "nulls")
	}
	if p.accept("over") {
		p.acceptGroup()
	}
}

// lockRows parses the rest of FOR UPDATE and its like.
func (p *parser) lockRows() {
	switch {
	case p.accept("read", "only"), p.accept("ordinality"): // of XMLTABLE
	case p.accept("update"), p.accept("share"), p.accept("no", "key", "update"), p.accept("key", "share"):
		p.locked = true
	default:
		p.fail()
	}
}

// selectInto parses INTO, which creates a table.
func (p *parser) selectInto() {
	p.at++
	temporary := p.acceptAny("temp", "temporary") != ""
	p.accept("unlogged")
	p.accept("table")
	p.add(Define, created(p.name(), temporary), map[string]string{"statement": "select into"})
}
