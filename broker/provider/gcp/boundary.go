package gcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of sts.googleapis.com (its discovery document).
const (
	maxRules    = 10
	maxBoundary = 2048 // characters of the boundary as JSON
)

// rule is one AccessBoundaryRule. A token may do what any of its rules allows.
type rule struct {
	Permissions []string   `json:"availablePermissions"` // inRole:<role>
	Resource    string     `json:"availableResource"`
	Condition   *condition `json:"availabilityCondition,omitempty"`
}

// condition is a google.type.Expr.
type condition struct {
	Expression string `json:"expression"`
}

type options struct {
	Boundary struct {
		Rules []rule `json:"accessBoundaryRules"`
	} `json:"accessBoundary"`
}

// encode gives the options parameter of the exchange, or says that the service does
// not take it.
func encode(rules []rule) (string, error) {
	var o options
	o.Boundary.Rules = rules
	inner, err := json.Marshal(o.Boundary)
	if err != nil {
		return "", err
	}
	if len(rules) == 0 || len(rules) > maxRules {
		return "", fmt.Errorf("a boundary has 1 to %d rules, not %d: ask for fewer prefixes", maxRules, len(rules))
	}
	if len(inner) > maxBoundary {
		return "", fmt.Errorf("the boundary has %d characters, and Google takes %d: ask for fewer or shorter prefixes", len(inner), maxBoundary)
	}
	all, err := json.Marshal(o)
	return string(all), err
}

// resource is the full name of a bucket.
func resource(bucket string) string { return "//storage.googleapis.com/projects/_/buckets/" + bucket }

// within is the condition for the objects below a prefix, which ends in "/" or is
// empty. With list, their names may be listed, too.
func within(bucket, prefix string, list bool) (*condition, error) {
	if list && prefix == "" {
		return nil, nil //nolint:nilnil // the whole bucket is listed as a whole: no condition
	}
	object, err := quote("projects/_/buckets/" + bucket + "/objects/" + prefix)
	if err != nil {
		return nil, err
	}
	e := "resource.name.startsWith(" + object + ")"
	if list {
		listed, err := quote(prefix)
		if err != nil {
			return nil, err
		}
		e += " || api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith(" + listed + ")"
	}
	return &condition{e}, nil
}

// exactly is the condition for one object.
func exactly(bucket, name string) (*condition, error) {
	object, err := quote("projects/_/buckets/" + bucket + "/objects/" + name)
	if err != nil {
		return nil, err
	}
	return &condition{"resource.name == " + object}, nil
}

// quote writes a string literal of CEL (language definition, "Lexis"): in single
// quotes, with everything escaped that could end the literal, or be shown as
// something else. What a scope can hold needs none of it; this does not rely on that.
func quote(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", errors.New("a name that is not UTF-8 cannot be part of a condition")
	}
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r <= '~':
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('\'')
	return b.String(), nil
}
