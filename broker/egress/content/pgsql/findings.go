package pgsql

import (
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// findings are the operations that were found so far.
type findings struct {
	facts   content.Facts
	tooMany bool
}

// add adds an operation, once.
func (f *findings) add(action, object string, details map[string]string) {
	if slices.ContainsFunc(f.facts.Operations, func(o content.Operation) bool {
		return o.Action == action && o.Object == object && o.Details["where"] == details["where"] && o.Details["statement"] == details["statement"]
	}) {
		return
	}
	if len(f.facts.Operations) == content.MaxOperations {
		f.tooMany = true
		return
	}
	f.facts.Operations = append(f.facts.Operations, content.Operation{Action: action, Object: object, Details: details})
}

// named returns the object that the name of a table or function refers to. The third part, the
// database, can only be that of the session.
func named(name []string) string {
	if len(name) == 1 {
		return "?." + quote(name[0])
	}
	return quote(name[len(name)-2]) + "." + quote(name[len(name)-1])
}

// column adds the call of a function in the notation of a column: x.name is name(x) if x has no such
// column, also if x is no row, as in (1).f and behind FROM abs(1) x (ParseFuncOrColumn in
// src/backend/parser/parse_func.c). Functions of the database are not seen.
func (f *findings) column(name string) {
	if builtIn(name) && !harmless([]string{name}) {
		f.add(Call, named([]string{name}), nil)
	}
}

// created returns the object that a CREATE makes.
func created(name []string, temporary bool) string {
	if temporary && len(name) == 1 {
		return "pg_temp." + quote(name[0])
	}
	return named(name)
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
