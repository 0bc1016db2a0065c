package fields

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// Formats of a body, which are the kinds of its facts.
const (
	JSON = "json" // one object (RFC 8259)
	Form = "form" // application/x-www-form-urlencoded; a[b] is the field /a/b
)

// Roles of a field.
const (
	Any    = "any"    // every value is allowed, and not shown
	Show   = "show"   // every value is allowed; approvers and the audit log see it
	Object = "object" // the value becomes the last segment of the scope that the request needs
	Email  = "email"  // as Object, for bob@example.com: the segments example.com/bob
	Amount = "amount" // what the request spends, as a number of 10^-Decimals units
	Unit   = "unit"   // the unit of the amounts: one of Units, in any case
	Count  = "count"  // each such field spends one unit
)

// Rule lists the fields of a body.
type Rule struct {
	Format string `json:"format"` // JSON or Form
	// Fields maps a place to a role. A place is a JSON pointer (RFC 6901); * is one part of it, and a
	// last ** is everything at and below. The most exact place decides.
	Fields map[string]string `json:"fields"`
	// Units are the units that amounts can have. Without a field with the role unit it is one.
	Units    []string `json:"units,omitempty"`
	Decimals int      `json:"decimals,omitempty"` // 2 = amounts are in hundredths of the unit

	places []place // the most exact first
}

// place is one of Rule.Fields.
type place struct {
	parts []string // the last can be **
	role  string
}

const (
	maxPlaces = 64
	maxParts  = 16
)

// Check calls bad for each problem of the rule; at is its place in the configuration. The rule is
// then ready for use.
func (r *Rule) Check(at string, bad func(format string, a ...any)) {
	if r.Format != JSON && r.Format != Form {
		bad("%s.format: %q is neither json nor form", at, r.Format)
	}
	if len(r.Fields) == 0 || len(r.Fields) > maxPlaces {
		bad("%s.fields: name 1 to %d places of the body, such as /amount", at, maxPlaces)
	}
	r.places = nil
	roles := []string{Any, Show, Object, Email, Amount, Unit, Count}
	folded := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		parts, ok := split(name)
		if !ok {
			bad("%s.fields: %q is not a place such as /amount, /to/*/email or /metadata/**", at, name)
			continue
		}
		if !slices.Contains(roles, r.Fields[name]) {
			bad("%s.fields: the role %q of %s is unknown; known are %s", at, r.Fields[name], name, strings.Join(roles, ", "))
		}
		if parts[len(parts)-1] == scopes.Rest && r.Fields[name] != Any && r.Fields[name] != Show {
			bad("%s.fields: %s stands for fields at several depths, which can only have the roles any and show", at, name)
		}
		if folded[strings.ToLower(name)] {
			bad("%s.fields: %s differs from another place only by case, and some servers ignore case", at, name)
		}
		folded[strings.ToLower(name)] = true
		r.places = append(r.places, place{parts, r.Fields[name]})
	}
	slices.SortStableFunc(r.places, func(a, b place) int { return slices.CompareFunc(a.parts, b.parts, moreExact) })
	r.checkUnits(at, bad)
}

// checkUnits calls bad for each problem of the units.
func (r *Rule) checkUnits(at string, bad func(format string, a ...any)) {
	switch spends := r.Has(Amount) || r.Has(Count); {
	case !spends && (len(r.Units) > 0 || r.Decimals != 0 || r.Has(Unit)):
		bad("%s: units, decimals and the role unit need a field with the role amount or count", at)
	case spends && len(r.Units) == 0, len(r.Units) > 16:
		bad("%s.units: name 1 to 16 units, such as EUR or mails", at)
	case len(r.Units) > 1 && !r.Has(Unit):
		bad("%s.units: several units need a field with the role unit, which says the one of a request", at)
	case r.Has(Amount) && r.Has(Count):
		bad("%s.fields: a request spends the sum of its amounts or the number of its fields, not both", at)
	}
	if r.Decimals < 0 || r.Decimals > amount.Places {
		bad("%s.decimals: use 0 to %d", at, amount.Places)
	}
	seen := map[string]bool{}
	for _, unit := range r.Units {
		if !amount.ValidUnit(unit) || seen[strings.ToLower(unit)] {
			bad("%s.units: %q is not a unit, or occurs twice: use a currency code of three capitals, or a word of small letters", at, unit)
		}
		seen[strings.ToLower(unit)] = true
	}
}

// split returns the parts of a place.
func split(text string) ([]string, bool) {
	if !strings.HasPrefix(text, "/") || len(text) > 256 {
		return nil, false
	}
	parts := strings.Split(text[1:], "/")
	for i, part := range parts {
		rest := strings.NewReplacer("~0", "", "~1", "").Replace(part)
		if part == "" || strings.Contains(rest, "~") || part == scopes.Rest && i < len(parts)-1 || part != scopes.Any && part != scopes.Rest && strings.Contains(part, "*") {
			return nil, false
		}
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~") // RFC 6901 section 4
	}
	return parts, len(parts) <= maxParts
}

// moreExact orders parts of places: names, then *, then **.
func moreExact(a, b string) int {
	rank := func(part string) int {
		switch part {
		case scopes.Any:
			return 1
		case scopes.Rest:
			return 2
		}
		return 0
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

// Has reports whether some field has a role.
func (r *Rule) Has(role string) bool {
	return slices.ContainsFunc(r.places, func(p place) bool { return p.role == role })
}

// Named reports whether the scope that a request needs names objects.
func (r *Rule) Named() bool { return r.Has(Object) || r.Has(Email) }

// Spends reports whether the facts of every request have an amount.
func (r *Rule) Spends() bool { return r.Has(Amount) || r.Has(Count) }

// role returns the role of a field, "" for a field that is not listed. ambiguous: its name differs
// from a listed one only by case.
func (r *Rule) role(path []string) (role string, ambiguous bool) {
	var by place
	for _, p := range r.places {
		exact := p.matches(path, func(a, b string) bool { return a == b })
		if !exact && p.matches(path, strings.EqualFold) {
			return "", true
		}
		if exact && by.role == "" {
			by = p
		}
	}
	if slices.ContainsFunc(r.places, func(p place) bool { return p.role != Any && by.evades(p, path) }) {
		return "", false
	}
	return by.role, false
}

// evades reports whether a place that matches a field would withdraw it from another place, which is
// above or below the field: many servers take a list or an object where they document one value, and
// the other way round. A place that names the same parts as the other one does not evade it.
func (p place) evades(other place, path []string) bool {
	n := min(len(path), len(other.parts))
	related := !other.matches(path, strings.EqualFold) && place{parts: other.parts[:n]}.matches(path[:n], strings.EqualFold)
	return related && (len(p.parts) < n || !slices.Equal(p.parts[:n], other.parts[:n]))
}

// matches reports whether a place is that of a field.
func (p place) matches(path []string, same func(a, b string) bool) bool {
	for i, part := range p.parts {
		switch {
		case part == scopes.Rest:
			return true
		case i >= len(path) || part != scopes.Any && !same(part, path[i]):
			return false
		}
	}
	return len(path) == len(p.parts)
}
