package postgres

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/pgsql"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// everyRow is added to the name of a statement that changes every row of a table.
const everyRow = "_all"

// statementNames are the statements that Config.Statements can list, as package pgsql names them. A
// table can follow, as in "update public.orders".
var statementNames = []string{
	pgsql.Read, pgsql.Insert, pgsql.Update, pgsql.Update + everyRow, pgsql.Delete, pgsql.Delete + everyRow, pgsql.Truncate, pgsql.Lock, pgsql.Call, pgsql.Define, pgsql.Admin,
}

// tableForm matches a table as package pgsql names it: with its schema, and in quotes only where SQL
// requires them.
var tableForm = lazyregexp.New(`^(?:[a-z_][a-z0-9_$]*|"[^"]*[^a-z0-9_$"][^"]*")(?:\.(?:[a-z_][a-z0-9_$]*|"[^"]*[^a-z0-9_$"][^"]*"))$`)

// checkStatements returns the problems of Config.Statements joined.
func (c Config) checkStatements() error {
	var errs []error
	for _, action := range slices.Sorted(maps.Keys(c.Statements)) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(c.Databases)), func(actions map[string]string) bool { return actions[action] != "" }) {
			errs = append(errs, fmt.Errorf("statements: %q is not an action of databases; name one of those", action))
		}
		for _, entry := range c.Statements[action] {
			name, table, one := strings.Cut(entry, " ")
			switch {
			case !slices.Contains(statementNames, name):
				errs = append(errs, fmt.Errorf("statements.%s: %q is unknown; use %s", action, entry, strings.Join(statementNames, ", ")))
			case one && (name == pgsql.Define || name == pgsql.Admin):
				errs = append(errs, fmt.Errorf("statements.%s: %q: %s cannot be limited to one object; use %q", action, entry, name, name))
			case one && !tableForm.MatchString(table):
				errs = append(errs, fmt.Errorf("statements.%s: %q: name the table as schema.table, such as public.orders or public.\"Orders\"", action, entry))
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

// readsOnly reports whether sessions with these statements begin in read-only mode.
func readsOnly(allowed []string) bool {
	return len(allowed) > 0 && !slices.ContainsFunc(allowed, func(s string) bool {
		name, _, _ := strings.Cut(s, " ")
		return name != pgsql.Read
	})
}

// JudgesSessions implements provider.SessionJudge.
func (d *Driver) JudgesSessions(set scopes.Set) bool {
	_, read := d.cfg.statements(set)
	return read
}

// judge returns the Judge of sessions with these scopes, which may use these statements.
func (d *Driver) judge(own scopes.Set, allowed []string) func(content.Facts) *provider.UncoveredError {
	return func(f content.Facts) *provider.UncoveredError {
		why := deniedBy(allowed, f)
		if why == "" {
			return nil
		}
		return &provider.UncoveredError{Why: why, Needed: d.needed(own, allowed, f)}
	}
}

// deniedBy returns why a list of statements denies a text, as a clause; "" = it allows the text.
func deniedBy(allowed []string, f content.Facts) string {
	for _, o := range f.Operations {
		name := o.Action
		if o.Details["where"] == "no" {
			name += everyRow
		}
		if name != pgsql.Session && !slices.Contains(allowed, name) && !slices.Contains(allowed, name+" "+o.Object) {
			return fmt.Sprintf("%s of %s is not among the statements that the scope of the credential allows (%s)", name, o.Object, strings.Join(allowed, ", "))
		}
	}
	return ""
}

// needed returns the scopes of a lease for a denied text. They are those of the session, unless its
// read-only mode excludes the text: then one of the same database without that mode, first one that
// allows the text, then the one with the fewest statements.
func (d *Driver) needed(own scopes.Set, allowed []string, f content.Facts) (out scopes.Set) {
	writes := slices.ContainsFunc(f.Operations, func(o content.Operation) bool {
		return !pgsql.Reads(o) && o.Action != pgsql.Call
	})
	if !writes || !readsOnly(allowed) {
		return own
	}
	at, _ := d.Endpoint(own)
	least := 0
	for _, s := range d.ScopesAt(own.Providers()[0], at) {
		set, err := scopes.NewSet(s)
		list, read := d.cfg.statements(set)
		if err != nil || !read || readsOnly(list) {
			continue
		}
		cost := 1 + len(list)
		if deniedBy(list, f) != "" {
			cost += 1 << 20
		}
		if least == 0 || cost < least {
			least, out = cost, set
		}
	}
	return out
}
