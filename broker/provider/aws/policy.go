package aws

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// maxPolicy is STS's limit for the session policy, in characters; ebb's policies are ASCII.
// A longer one is never sent, because it makes a RADOS Gateway crash.
const maxPolicy = 2048

// policyVersion is the version with policy variables, which literal needs.
const policyVersion = "2012-10-17"

// conditions are the conditions of IAM: operator to key to values.
type conditions map[string]map[string]many

// many is a list that IAM also accepts as a single string, which is shorter.
type many []string

// MarshalJSON implements json.Marshaler.
func (m many) MarshalJSON() ([]byte, error) {
	if len(m) == 1 {
		return compact(m[0])
	}
	return compact([]string(m))
}

// permission is the content of one Allow statement before statements are merged.
type permission struct {
	actions   []string
	resources []string
	when      conditions
}

// literal escapes text for Resource and Condition, so that IAM reads it literally: wildcards
// and the sign that starts a variable are written as variables.
func literal(text string) string {
	return escapes.Replace(text)
}

var escapes = strings.NewReplacer("*", "${*}", "?", "${?}", "$", "${$}")

// compile returns the session policy of a set. It allows exactly the set, until then.
func (d *Driver) compile(set scopes.Set, partition string, until time.Time) (string, error) {
	if set.Empty() {
		return "", fmt.Errorf("%w: no scope", provider.ErrUnsupported)
	}
	var ps []permission
	lists := listings{}
	for _, s := range set.Scopes() {
		if s.Provider() != d.cfg.Name {
			return "", fmt.Errorf("%w: %s is of another provider", provider.ErrUnsupported, s)
		}
		p, err := d.permissionsOf(s, partition, lists)
		if err != nil {
			return "", err
		}
		ps = append(ps, p...)
	}
	text, err := d.render(join(append(ps, lists.permissions(partition)...)), until)
	if err != nil {
		return "", err
	}
	if len(text) > maxPolicy {
		return "", fmt.Errorf("%w: together the scopes need a session policy of %d characters, and the limit of AWS is %d: request fewer at once, or one that ends in /**",
			provider.ErrUnsupported, len(text), maxPolicy)
	}
	return text, nil
}

func (d *Driver) permissionsOf(s scopes.Scope, partition string, lists listings) ([]permission, error) {
	if s.Action() == scopes.Any {
		return nil, fmt.Errorf("%w: %s: list the actions: * would include actions of later configurations", provider.ErrUnsupported, s)
	}
	if slices.Contains(s3Actions, s.Action()) {
		return d.s3Permissions(s, partition, lists)
	}
	return d.statementPermissions(s)
}

// join merges permissions whose product allows the same and no more: first all actions of
// one resource, then all resources with the same actions.
func join(ps []permission) []permission {
	type target struct{ when, resource string }
	actions := map[target]map[string]bool{}
	whens := map[string]conditions{}
	for _, p := range ps {
		key := mustCompact(p.when)
		whens[key] = p.when
		for _, r := range p.resources {
			t := target{key, r}
			if actions[t] == nil {
				actions[t] = map[string]bool{}
			}
			for _, a := range p.actions {
				actions[t][a] = true
			}
		}
	}
	type group struct{ when, actions string }
	groups := map[group][]string{}
	for t, as := range actions {
		g := group{t.when, strings.Join(slices.Sorted(maps.Keys(as)), " ")}
		groups[g] = append(groups[g], t.resource)
	}
	var out []permission
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(a, b group) int {
		return strings.Compare(a.actions+"\n"+a.when, b.actions+"\n"+b.when)
	}) {
		out = append(out, permission{strings.Fields(g.actions), slices.Sorted(slices.Values(groups[g])), whens[g.when]})
	}
	return out
}

// allow is a statement in IAM's JSON form.
type allow struct {
	Effect    string
	Action    many
	Resource  many
	Condition conditions
}

type policyDocument struct {
	Version   string
	Statement []allow
}

// render writes a policy in its shortest form. Every Allow has its own expiry and the
// binding conditions.
func (d *Driver) render(ps []permission, until time.Time) (string, error) {
	doc := policyDocument{Version: policyVersion}
	end := conditions{"DateLessThan": {"aws:CurrentTime": {until.UTC().Format(time.RFC3339)}}}
	for _, p := range ps {
		if i := slices.IndexFunc(p.actions, forbidden); i >= 0 {
			return "", fmt.Errorf("a session policy never allows %s", p.actions[i])
		}
		when, err := merge(end, d.binding, p.when)
		if err != nil {
			return "", err
		}
		doc.Statement = append(doc.Statement, allow{"Allow", p.actions, p.resources, when})
	}
	b, err := compact(doc)
	return string(b), err
}

// denyAll is the session policy of a self-test, which only proves that a role can be
// assumed.
const denyAll = `{"Version":"` + policyVersion + `","Statement":[{"Effect":"Deny","Action":"*","Resource":"*"}]}`

// merge returns conditions that require all of the given ones. IAM would read the same key
// under the same operator twice as "one of", so that is an error.
func merge(all ...conditions) (conditions, error) {
	out := conditions{}
	for _, c := range all {
		for op, keys := range c {
			if out[op] == nil {
				out[op] = map[string]many{}
			}
			for key, values := range keys {
				if out[op][key] != nil {
					return nil, errors.New("two conditions on " + key + " cannot be required at once")
				}
				out[op][key] = values
			}
		}
	}
	return out, nil
}

// compact returns JSON without spaces and without escapes for HTML.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// mustCompact is compact for values that consist of strings only, which cannot fail.
func mustCompact(v any) string {
	b, err := compact(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
