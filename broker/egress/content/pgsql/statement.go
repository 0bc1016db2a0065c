package pgsql

// parser parses one statement of a text after another. A statement that it does not understand
// fails: the parser then sees the end of the statement, and the facts name an unknown operation.
type parser struct {
	cursor
	findings
	depth  int      // of calls of level
	ctes   []string // names of WITH that are visible here
	locked bool     // the statement locks the rows that it reads
	change change   // the INSERT, UPDATE, DELETE or MERGE that contains the current token
}

// statement parses one statement, and adds its operations.
func (p *parser) statement() {
	first, from := len(p.facts.Operations), p.at
	p.failed, p.locked, p.depth, p.ctes, p.change = false, false, 0, p.ctes[:0], change{}
	p.command()
	if p.failed || p.at < len(p.tokens) {
		p.failed, p.at, p.facts.Operations = false, from, p.facts.Operations[:first]
		p.add(Unknown, "?", p.words())
		return
	}
	if len(p.facts.Operations) == 0 {
		p.add(Session, "", nil) // SELECT 1
	}
	if p.locked {
		for _, o := range p.facts.Operations[first:] {
			if o.Action == Read {
				p.add(Lock, o.Object, nil)
			}
		}
	}
}

// command parses a statement by its first word.
func (p *parser) command() {
	if p.query() {
		return
	}
	switch w := p.wordAt(0); w {
	case "explain":
		p.explain()
	case "prepare":
		p.prepare()
	case "declare":
		p.declare()
	case "copy":
		p.copies()
	case "call":
		p.at++
		p.add(Call, named(p.name()), nil)
		p.parentheses()
	case "truncate", "lock":
		p.tables()
	case "begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release":
		p.transaction()
	case "set":
		p.sets()
	case "reset":
		p.resets()
	case "discard":
		p.at++
		if p.acceptAny("temp", "temporary") != "" {
			p.add(Define, "pg_temp", nil)
			return
		}
		p.acceptAny("all", "plans", "sequences") // temporary tables, which ALL drops, need the action ddl
		p.add(Session, "", nil)
	case "show", "fetch", "move", "close", "deallocate", "unlisten":
		p.at++
		p.plain()
		p.add(Session, "", nil)
	default:
		p.definition()
	}
}

// query parses a statement that reads or changes tables, if one follows.
func (p *parser) query() bool {
	switch {
	case p.atChange():
		p.changes()
	case p.atQuery(0), p.signAt(0) == '(':
		p.level(inExpression)
	default:
		return false
	}
	return true
}

// explain parses EXPLAIN, which runs the statement with ANALYZE, and needs the same rights without.
func (p *parser) explain() {
	p.at++
	if p.signAt(0) == '(' && p.signAt(1) != '(' && !p.atQuery(1) {
		p.parentheses()
	} else {
		p.acceptAny("analyze", "analyse")
		p.accept("verbose")
	}
	switch p.wordAt(0) {
	case "declare":
		p.declare()
	case "create", "refresh":
		p.definition()
	default:
		if !p.query() {
			p.fail()
		}
	}
}

// prepare parses PREPARE. EXECUTE is unknown: other clients of a pooled session may have prepared
// the statement.
func (p *parser) prepare() {
	p.at++
	if p.accept("transaction") {
		p.plain()
		p.add(Admin, "prepared transactions", nil)
		return
	}
	p.identifier(false)
	p.acceptGroup()
	p.expectWord("as")
	if !p.query() {
		p.fail()
	}
}

// declare parses the declaration of a cursor.
func (p *parser) declare() {
	p.at++
	p.identifier(false)
	for p.acceptAny("binary", "insensitive", "asensitive", "scroll", "no") != "" {
	}
	p.expectWord("cursor")
	if p.acceptAny("with", "without") != "" {
		p.expectWord("hold")
	}
	p.expectWord("for")
	if p.atChange() || !p.query() {
		p.fail()
	}
}

// copies parses COPY. A file, or a program, is one of the server's.
func (p *parser) copies() {
	p.at++
	table := ""
	if p.acceptSign('(') {
		if p.atChange() {
			p.changes()
		} else {
			p.level(inExpression)
		}
		p.expect(')')
	} else {
		p.accept("binary")
		table = named(p.name())
		p.acceptGroup()
	}
	direction := p.acceptAny("to", "from")
	switch {
	case direction == "" || direction == "from" && table == "":
		p.fail()
	case p.acceptAny("stdin", "stdout") == "":
		p.add(Admin, "files and programs", p.words())
		p.accept("program")
		p.at++
	}
	p.accept("with")
	p.level(inExpression) // options, and WHERE
	switch {
	case table == "":
	case direction == "to":
		p.add(Read, table, nil)
	default:
		p.add(Insert, table, nil)
	}
}

// tables parses TRUNCATE and LOCK, which name tables only.
func (p *parser) tables() {
	action := p.wordAt(0)
	p.at++
	p.accept("table")
	for more := true; more && !p.failed; more = p.acceptSign(',') {
		p.accept("only")
		p.add(action, named(p.name()), nil)
		p.acceptSign('*')
	}
	if action == Lock {
		if p.accept("in") {
			for !p.failed && !p.accept("mode") {
				p.identifier(true)
			}
		}
		p.accept("nowait")
		return
	}
	if p.acceptAny("restart", "continue") != "" {
		p.expectWord("identity")
	}
	if p.acceptAny("cascade", "restrict") == "cascade" {
		p.add(action, "?", nil) // all tables that refer to them
	}
}
