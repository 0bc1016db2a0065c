package gcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// Limits of sts.googleapis.com (its discovery document).
const (
	maxRules    = 10
	maxBoundary = 2048 // characters of the boundary as JSON
)

// rule is one AccessBoundaryRule. A token has every permission that at least one of its rules
// grants.
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

// encode returns the options parameter of the exchange, or an error when it exceeds the
// service's limits.
func encode(rules []rule) (string, error) {
	var o options
	o.Boundary.Rules = rules
	inner, err := json.Marshal(o.Boundary)
	if err != nil {
		return "", err
	}
	if len(rules) == 0 || len(rules) > maxRules {
		return "", fmt.Errorf("a boundary has 1 to %d rules, not %d: request fewer prefixes", maxRules, len(rules))
	}
	if len(inner) > maxBoundary {
		return "", fmt.Errorf("the boundary has %d characters, and Google's limit is %d: request fewer or shorter prefixes", len(inner), maxBoundary)
	}
	all, err := json.Marshal(o)
	return string(all), err
}

// resource returns the full name of a bucket.
func resource(bucket string) string { return "//storage.googleapis.com/projects/_/buckets/" + bucket }

// within returns the condition for the objects below a prefix, which ends in "/" or is
// empty. With list, it also allows listing their names.
func within(bucket, prefix string, list bool) (*condition, error) {
	if list && prefix == "" {
		return nil, nil //nolint:nilnil // a rule for the whole bucket needs no condition
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

// exactly returns the condition for one object.
func exactly(bucket, name string) (*condition, error) {
	object, err := quote("projects/_/buckets/" + bucket + "/objects/" + name)
	if err != nil {
		return nil, err
	}
	return &condition{"resource.name == " + object}, nil
}

// quote returns a string literal of CEL (language definition, "Lexis") in single quotes. It
// escapes everything that could end the literal or be displayed as something else. Scopes
// contain no such characters, but quote does not rely on that.
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

// cloudPlatform is the OAuth scope that the broker itself needs, and that a token must have
// to be exchanged for a narrowed one.
const cloudPlatform = "https://www.googleapis.com/auth/cloud-platform"

// plan is the token request for a set of scopes.
type plan struct {
	account string
	scopes  []string // OAuth scopes
	options string   // options of the exchange; "" for none, and then the token is issued without an exchange
}

// plan returns a plan that allows exactly the scopes, or an error that wraps ErrUnsupported.
func (d *Driver) plan(s scopes.Set) (plan, error) {
	unsupported := func(format string, a ...any) (plan, error) {
		return plan{}, fmt.Errorf("%w: "+format, append([]any{provider.ErrUnsupported}, a...)...)
	}
	if s.Empty() {
		return unsupported("no scope")
	}
	p := plan{scopes: []string{cloudPlatform}}
	var rules []rule
	for _, sc := range s.Scopes() {
		if a, ok := d.cfg.Grants.Of(sc); ok {
			if s.Len() > 1 {
				return unsupported("%s cannot be in one token with others", sc)
			}
			return plan{account: a.ServiceAccount, scopes: a.Scopes}, nil
		}
		bucket, path, _ := strings.Cut(sc.Resource(), "/")
		b, known := d.cfg.Buckets[bucket]
		action, can := b.Actions[sc.Action()]
		switch {
		case !known || !can:
			return unsupported("%s is not configured", sc)
		case p.account != "" && p.account != b.ServiceAccount:
			return unsupported("the buckets of one token must have the same service account")
		}
		p.account = b.ServiceAccount
		r, err := objects(bucket, path, action)
		if err != nil {
			return unsupported("%s: %v", sc, err)
		}
		rules = add(rules, r)
	}
	var err error
	if p.options, err = encode(rules); err != nil {
		return unsupported("%v", err)
	}
	return p, nil
}

// objects returns the rule for one path of a bucket: an object, or everything below a
// prefix. Conditions support no other patterns.
func objects(bucket, path string, a Action) (rule, error) {
	r := rule{Permissions: []string{"inRole:" + a.Role}, Resource: resource(bucket)}
	prefix, below := path, false
	if path == scopes.Rest {
		prefix, below = "", true
	} else if cut, ok := strings.CutSuffix(path, "/"+scopes.Rest); ok {
		prefix, below = cut+"/", true
	}
	if path == "" || strings.Contains(prefix, "*") {
		return r, fmt.Errorf("name an object, or cover everything below a prefix: %s/a/b/%s", bucket, scopes.Rest)
	}
	var err error
	if below {
		r.Condition, err = within(bucket, prefix, a.List)
	} else {
		r.Condition, err = exactly(bucket, prefix)
	}
	return r, err
}

// add adds a rule. It joins rules with the same condition, because a boundary has at most
// maxRules rules.
func add(rules []rule, r rule) []rule {
	same := func(x rule) bool {
		if x.Resource != r.Resource || (x.Condition == nil) != (r.Condition == nil) {
			return false
		}
		return x.Condition == nil || *x.Condition == *r.Condition
	}
	i := slices.IndexFunc(rules, same)
	if i < 0 {
		return append(rules, r)
	}
	if !slices.Contains(rules[i].Permissions, r.Permissions[0]) {
		rules[i].Permissions = append(rules[i].Permissions, r.Permissions[0])
	}
	return rules
}
