package pgsql

import (
	"slices"
	"strings"
)

// freeSettings decide neither how the server reads a later statement, nor which rights it has.
var freeSettings = strings.Fields("application_name bytea_output client_min_messages datestyle default_transaction_deferrable " +
	"default_transaction_isolation extra_float_digits idle_in_transaction_session_timeout idle_session_timeout intervalstyle lock_timeout " +
	"statement_timeout timezone transaction_deferrable transaction_isolation transaction_timeout")

// transaction parses the statements that begin and end transactions.
func (p *parser) transaction() {
	prepared := p.accept("commit", "prepared") || p.accept("rollback", "prepared")
	p.modes()
	if prepared {
		p.add(Admin, "prepared transactions", nil)
	}
}

// modes parses the modes of a transaction. READ WRITE undoes default_transaction_read_only.
func (p *parser) modes() {
	action, object := Session, ""
	for !p.done() {
		if p.accept("read", "write") {
			action, object = Admin, "transaction_read_only"
			continue
		}
		if c := p.signAt(0); c != 0 && c != ',' {
			p.fail()
		}
		p.at++
	}
	p.add(action, object, nil)
}

// sets parses SET.
func (p *parser) sets() {
	p.at++
	switch {
	case p.accept("session", "characteristics", "as", "transaction"), p.accept("transaction"), p.accept("local", "transaction"):
		p.modes()
		return
	case p.accept("constraints"):
		p.plain()
		p.add(Session, "", nil)
		return
	case p.accept("session", "authorization"), p.accept("local", "session", "authorization"):
		p.plain()
		p.add(Admin, "session_authorization", nil)
		return
	}
	p.acceptAny("session", "local")
	name := ""
	switch {
	case p.accept("time", "zone"):
		name = "timezone"
	case p.accept("names"):
		name = "client_encoding"
	case p.accept("schema"):
		name = "search_path"
	case p.accept("role"):
		name = "role"
	case p.accept("xml", "option"):
		name = "xmloption"
	default:
		name = strings.ToLower(strings.Join(p.name(), "."))
	}
	from := p.at
	p.plain()
	if slices.Contains(freeSettings, name) || name == "client_encoding" && p.isUTF8(from) {
		p.add(Session, "", nil)
		return
	}
	p.add(Admin, name, nil)
}

// resets parses RESET, which restores the value with which the session began. RESET ALL leaves the
// role as it is.
func (p *parser) resets() {
	p.at++
	if p.accept("session", "authorization") {
		p.add(Admin, "session_authorization", nil)
		return
	}
	if p.accept("time", "zone") || p.accept("all") {
		p.add(Session, "", nil)
		return
	}
	name := strings.ToLower(strings.Join(p.name(), "."))
	if !slices.Contains(freeSettings, name) { // the value of transaction_read_only is not the default one
		p.add(Admin, name, nil)
		return
	}
	p.add(Session, "", nil)
}
