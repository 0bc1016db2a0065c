package pgsql

import (
	"slices"
	"strings"
)

// adminKinds are the kinds of objects that belong to the server or decide about rights and code, by
// the word behind CREATE, ALTER or DROP.
var adminKinds = strings.Fields("access database default event extension foreign-data group language owned publication role server subscription system tablespace user")

// definition parses the statements that define something, and those of administrators.
func (p *parser) definition() {
	details := p.words()
	verb := p.wordAt(0)
	switch verb {
	case "comment", "security", "import", "refresh", "reindex":
		p.add(Define, "?", details)
	case "grant", "revoke", "reassign", "load", "checkpoint", "vacuum", "analyze", "analyse", "cluster", "listen", "notify":
		p.add(Admin, verb, details)
	case "create", "alter", "drop":
		p.at++
		p.defined(verb, details)
	default: // also DO and EXECUTE
		p.fail()
		return
	}
	p.at = len(p.tokens)
}

// defined parses CREATE, ALTER and DROP behind the verb.
func (p *parser) defined(verb string, details map[string]string) {
	kind := p.wordAt(0)
	if kind == "foreign" && p.wordAt(1) == "data" {
		kind = "foreign-data"
	}
	if kind == "schema" && p.mentions("grant", len(p.tokens)) {
		kind = "grant"
	}
	if slices.Contains([]string{"or", "trusted", "procedural"}, kind) && p.mentions("language", p.at+5) { // OR REPLACE TRUSTED PROCEDURAL LANGUAGE
		kind = "language"
	}
	if kind == "grant" || slices.Contains(adminKinds, kind) {
		p.add(Admin, kind, details)
		return
	}
	p.accept("or", "replace")
	temporary := p.acceptAny("global", "local") != ""
	temporary = p.acceptAny("temp", "temporary") != "" || temporary
	p.acceptAny("unlogged", "foreign", "recursive", "materialized")
	kind = p.acceptAny("table", "view", "sequence")
	if kind == "" {
		p.add(Define, "?", details) // a function, a type, an index: it may be part of any table
		return
	}
	if p.accept("if") {
		p.accept("not")
		p.expectWord("exists")
	}
	p.accept("only")
	name := p.name()
	for verb == "drop" && p.acceptSign(',') {
		p.add(Define, named(name), details)
		name = p.name()
	}
	object := named(name)
	if verb == "create" {
		object = created(name, temporary)
	}
	p.add(Define, object, details)
	if kind != "sequence" {
		p.others(verb, details)
	}
}

// others adds the other tables that a definition concerns, and reads those of its query.
func (p *parser) others(verb string, details map[string]string) {
	for depth := 0; !p.done(); p.at++ {
		switch c := p.signAt(0); c {
		case '(':
			depth++
		case ')':
			depth--
		}
		switch w := p.wordAt(0); {
		case w == "as" && verb == "create" && depth == 0:
			p.at++
			if !p.query() {
				p.fail()
			}
			return
		case w == "references", w == "like" && (p.peek(1).kind == word || p.peek(1).kind == quoted):
			p.at++
			p.add(Define, named(p.name()), details)
			p.at--
		case slices.Contains([]string{"attach", "cascade", "detach", "inherit", "inherits", "of", "owned", "owner", "partition", "rename", "rule", "schema", "server", "trigger"}, w):
			p.add(Define, "?", details)
		}
	}
}
