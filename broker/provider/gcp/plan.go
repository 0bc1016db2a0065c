package gcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// cloudPlatform is the OAuth scope that the broker needs itself, and that a token
// has which is exchanged for a narrowed one.
const cloudPlatform = "https://www.googleapis.com/auth/cloud-platform"

// plan is how a set of scopes becomes one token.
type plan struct {
	account string
	scopes  []string // of OAuth
	options string   // of the exchange; "" = none, the token is handed out as it is
}

// plan says exactly what the scopes say, or wraps ErrUnsupported.
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

// objects is the rule for one path of a bucket: an object, or everything below a
// prefix. A condition knows no other patterns.
func objects(bucket, path string, a Action) (rule, error) {
	r := rule{Permissions: []string{"inRole:" + a.Role}, Resource: resource(bucket)}
	prefix, below := path, false
	if path == scopes.Rest {
		prefix, below = "", true
	} else if cut, ok := strings.CutSuffix(path, "/"+scopes.Rest); ok {
		prefix, below = cut+"/", true
	}
	if path == "" || strings.Contains(prefix, "*") {
		return r, fmt.Errorf("name an object, or everything below a prefix: %s/a/b/%s", bucket, scopes.Rest)
	}
	var err error
	if below {
		r.Condition, err = within(bucket, prefix, a.List)
	} else {
		r.Condition, err = exactly(bucket, prefix)
	}
	return r, err
}

// add adds a rule, to one with the same condition where there is one: there are few
// in a boundary.
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
