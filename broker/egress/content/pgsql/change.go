package pgsql

import "slices"

// change is an INSERT, UPDATE, DELETE or MERGE.
type change struct {
	action, table string            // "" = none
	depth         int               // of the level with its clauses
	where         int               // index of the first token of its condition, which follows ON in a MERGE; 0 = none
	acts          bool              // an action of the MERGE was found
	onKnown       bool              // onDetails is set
	onDetails     map[string]string // the result of joined
}

// atChange reports whether a statement that changes a table follows.
func (p *parser) atChange() bool {
	return slices.Contains([]string{"insert", "update", "delete", "merge"}, p.wordAt(0))
}

// changes parses a statement that changes a table.
func (p *parser) changes() {
	outer := p.change
	p.change = change{action: p.wordAt(0), depth: p.depth + 1}
	p.at++
	switch p.change.action {
	case Insert:
		p.insert()
	case Update:
		p.target()
		p.expectWord("set")
		p.level(inExpression)
	case Delete:
		p.expectWord("from")
		p.target()
		if p.accept("using") {
			p.level(inFrom)
		} else {
			p.level(inExpression)
		}
	default:
		p.expectWord("into")
		p.target()
		p.expectWord("using")
		p.level(inFrom)
	}
	c := p.change
	p.change = outer
	switch {
	case p.failed:
	case c.action == "merge":
		if !c.acts {
			p.fail()
		}
	case c.action == Insert:
		p.add(Insert, c.table, nil)
	default:
		p.add(Read, c.table, nil)
		p.add(c.action, c.table, c.unlimited(&p.cursor, p.at))
	}
}

// unlimited returns the detail "where": "no" for a change without a condition that depends on the rows,
// otherwise nil.
func (c *change) unlimited(at *cursor, to int) map[string]string {
	if c.where == 0 || !at.dependsOnRows(c.where, to) {
		return map[string]string{"where": "no"}
	}
	return nil
}

// target parses the changed table and its alias.
func (p *parser) target() {
	parenthesis := p.accept("only") && p.acceptSign('(')
	p.change.table = named(p.name())
	if parenthesis {
		p.expect(')')
	}
	p.acceptSign('*')
	if p.accept("as") {
		p.identifier(false)
	} else if w := p.wordAt(0); p.peek(0).kind == quoted || w != "" && w != "set" && !reserved(w) {
		p.identifier(false)
	}
	if p.change.action == "merge" {
		p.add(Read, p.change.table, nil)
	}
}

// insert parses the rest of an INSERT.
func (p *parser) insert() {
	p.expectWord("into")
	p.change.table = named(p.name())
	if p.accept("as") {
		p.identifier(false)
	}
	if p.signAt(0) == '(' && p.wordAt(1) != "with" {
		p.at++
		p.group(inExpression, ')') // columns or a query
	}
	if p.accept("overriding") {
		p.acceptAny("system", "user")
		p.expectWord("value")
	}
	p.accept("default") // VALUES
	p.level(inExpression)
}

// condition records where the condition of the change begins.
func (c *change) condition(at, depth int) {
	if c.action != "" && depth == c.depth {
		c.where = at
	}
}

// changeKeyword parses ON, THEN and RETURNING, which have a meaning of their own in a change.
func (p *parser) changeKeyword(at place) place {
	c := p.change
	within := c.action != "" && p.depth == c.depth
	switch {
	case p.accept("on", "conflict"):
		if !within {
			p.fail()
		}
		p.conflict()
		return inExpression
	case p.accept("returning"):
		if !within { // of JSON functions
			return at
		}
		p.add(Read, c.table, nil)
		if p.accept("with") { // (OLD AS o, NEW AS n)
			p.parentheses()
		}
		return inExpression
	case within && c.action == "merge" && p.accept("then"):
		return p.mergeAction()
	case within && c.action == "merge" && p.wordAt(0) == "on": // the last ON is that of the MERGE, the others are those of joins
		p.change.where = p.at + 1
	}
	p.at++
	return at
}

// conflict parses the rest of ON CONFLICT.
func (p *parser) conflict() {
	p.acceptGroup()
	for !p.done() && p.wordAt(0) != "do" { // WHERE, or ON CONSTRAINT
		p.step(inExpression)
	}
	p.expectWord("do")
	p.add(Read, p.change.table, nil)
	if p.accept("update") {
		p.expectWord("set")
		p.add(Update, p.change.table, nil)
		return
	}
	p.expectWord("nothing")
}

// joined returns the detail of unlimited for the ON condition of a MERGE. Conditions after WHEN do not count.
// joined keeps the result, because a MERGE can have many actions.
func (c *change) joined(at *cursor) map[string]string {
	if !c.onKnown {
		to := c.where
		for to < at.at && at.lower[at.tokens[to].from:at.tokens[to].to] != "when" {
			to++
		}
		c.onKnown, c.onDetails = true, c.unlimited(at, to)
	}
	return c.onDetails
}

// mergeAction parses the beginning of an action of MERGE, behind THEN.
func (p *parser) mergeAction() place {
	switch table := p.change.table; {
	case p.accept("update", "set"):
		p.add(Update, table, p.change.joined(&p.cursor))
	case p.accept("delete"):
		p.add(Delete, table, p.change.joined(&p.cursor))
	case p.accept("insert"):
		p.add(Insert, table, nil)
		p.acceptGroup()
		p.accept("overriding")
		p.accept("default")
	case p.accept("do", "nothing"):
	default: // of a CASE expression
		return inJoin
	}
	p.change.acts = true
	return inExpression
}
