package pgsql

import "slices"

// fromItem parses one item of a FROM list with its alias.
func (p *parser) fromItem() {
	p.accept("lateral")
	switch {
	case p.acceptSign('('):
		if p.atQuery(0) {
			p.group(inExpression, ')')
		} else {
			p.group(inFrom, ')') // joined tables, or a query in more parentheses
		}
	case p.accept("rows", "from"):
		p.parentheses()
	case p.accept("only"):
		if p.acceptSign('(') {
			p.reads(p.name())
			p.expect(')')
		} else {
			p.reads(p.name())
		}
	default:
		p.tableOrFunction()
	}
	p.accept("with", "ordinality")
	p.alias()
	if p.accept("tablesample") {
		if name := p.name(); len(name) != 1 || name[0] != "system" && name[0] != "bernoulli" {
			p.add(Call, named(name), nil)
		}
		p.parentheses()
		if p.accept("repeatable") {
			p.parentheses()
		}
	}
}

// tableOrFunction parses an item that begins with a name.
func (p *parser) tableOrFunction() {
	if w := p.wordAt(0); p.signAt(1) == '(' && neverFunction(w) {
		p.reference(inExpression)
		p.acceptGroup()
		return
	}
	var name []string
	if p.signAt(1) == '(' {
		name = []string{p.identifier(true)} // such as left(), whose name is reserved elsewhere
	} else {
		name = p.name()
	}
	if p.signAt(0) == '(' {
		p.call(name)
		return
	}
	p.reads(name)
	p.acceptSign('*')
}

// alias parses the alias of an item, with its columns.
func (p *parser) alias() {
	switch w := p.wordAt(0); {
	case w == "as":
		p.at++
		if p.signAt(0) != '(' {
			p.identifier(true)
		}
	case p.peek(0).kind == quoted, w != "" && !reserved(w):
		p.identifier(false)
	default:
		return
	}
	p.acceptGroup()
}

// reads adds the read of a table, unless the name is one of WITH.
func (p *parser) reads(name []string) {
	if p.failed || len(name) == 1 && slices.Contains(p.ctes, name[0]) {
		return
	}
	p.add(Read, named(name), nil)
}

// with parses a WITH clause. A name is visible in its own query only with RECURSIVE.
func (p *parser) with() {
	p.expectWord("with")
	recursive := p.accept("recursive")
	for more := true; more && !p.failed; more = p.acceptSign(',') {
		name := p.identifier(false)
		p.acceptGroup()
		p.expectWord("as")
		p.accept("not")
		p.accept("materialized")
		p.expect('(')
		if len(p.ctes) == maxNames {
			p.fail()
		}
		if recursive {
			p.ctes = append(p.ctes, name)
		}
		if p.atChange() {
			p.changes()
			p.expect(')')
		} else {
			p.group(inExpression, ')')
		}
		if !recursive {
			p.ctes = append(p.ctes, name)
		}
		if p.accept("search") {
			p.skipTo("set")
			p.identifier(false)
		}
		if p.accept("cycle") {
			p.skipTo("using")
			p.identifier(false)
		}
	}
}
