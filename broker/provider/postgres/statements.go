package postgres

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/pgsql"
	"github.com/ebb-broker/ebb/scopes"
)

// everyRow is added to the name of a statement that changes every row of a table.
const everyRow = "_all"

// statementNames are the statements that Config.Statements can list, as package pgsql names them.
var statementNames = []string{
	pgsql.Read, pgsql.Insert, pgsql.Update, pgsql.Update + everyRow, pgsql.Delete, pgsql.Delete + everyRow, pgsql.Truncate, pgsql.Lock, pgsql.Call, pgsql.Define, pgsql.Admin,
}

// checkStatements returns the problems of Config.Statements joined.
func (c Config) checkStatements() error {
	var errs []error
	for _, action := range slices.Sorted(maps.Keys(c.Statements)) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(c.Databases)), func(actions map[string]string) bool { return actions[action] != "" }) {
			errs = append(errs, fmt.Errorf("statements: %q is not an action of databases; name one of those", action))
		}
		for _, name := range c.Statements[action] {
			if !slices.Contains(statementNames, name) {
				errs = append(errs, fmt.Errorf("statements.%s: %q is unknown; use %s", action, name, strings.Join(statementNames, ", ")))
			}
		}
	}
	return errors.Join(errs...)
}

// statements returns the statements that sessions with these scopes may use. read is false if an
// action has no list: then egress does not read the sessions.
func (c Config) statements(set scopes.Set) (allowed []string, read bool) {
	for _, s := range set.Scopes() {
		list, has := c.Statements[s.Action()]
		if !has {
			return nil, false
		}
		allowed = append(allowed, list...)
	}
	slices.Sort(allowed)
	return slices.Compact(allowed), true
}

// judgeOf returns the Judge of sessions that may use these statements.
func judgeOf(allowed []string) func(content.Facts) string {
	return func(f content.Facts) string {
		for _, o := range f.Operations {
			name := o.Action
			if o.Details["where"] == "no" {
				name += everyRow
			}
			if name != pgsql.Session && !slices.Contains(allowed, name) {
				return fmt.Sprintf("%s of %s is not among the statements that the scope of the credential allows (%s)", name, o.Object, strings.Join(allowed, ", "))
			}
		}
		return ""
	}
}
