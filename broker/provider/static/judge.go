package static

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Judge is a Driver that reads the bodies of requests, because a rule of its configuration lists
// their fields.
type Judge struct{ *Driver }

var (
	_ provider.ContentJudge = Judge{}
	_ provider.AmountReader = Judge{}
)

// Open returns the driver for a configuration: a *Driver or a Judge. See New.
func Open(name string, c Config, s provider.SecretStore, now func() time.Time) (provider.Driver, error) {
	d, err := New(name, c, s, now)
	if err != nil {
		return nil, err
	}
	for _, actions := range c.Grants {
		for _, rule := range actions {
			if rule.Body != nil {
				return Judge{d}, nil
			}
		}
	}
	return d, nil
}

// Judged implements provider.ContentJudge. The secret is in no sandbox in any case.
func (j Judge) Judged(set scopes.Set) bool {
	return slices.ContainsFunc(set.Scopes(), func(s scopes.Scope) bool {
		r, _, known := j.rule(s)
		return known && r.Body != nil
	})
}

// ReadsAmounts implements provider.AmountReader.
func (j Judge) ReadsAmounts(s scopes.Scope) bool {
	r, _, known := j.rule(s)
	if !known {
		return false
	}
	reads := !r.WebSocket && !slices.ContainsFunc(r.Methods, func(m string) bool { return m != http.MethodGet && m != http.MethodHead })
	return reads || r.Body != nil && r.Body.Spends()
}

// Judge implements provider.ContentJudge. A lease with a scope whose rule covers the request without
// a body can send every body. There is no Reply, because ebb knows of no form in which the API refuses.
func (j Judge) Judge(_ context.Context, r *http.Request, t provider.Target) (content.Facts, provider.Reply, error) {
	facts, err := j.read(r, t)
	return facts, nil, err
}

// read is Judge without the Reply.
func (j Judge) read(r *http.Request, t provider.Target) (content.Facts, error) {
	path, err := stricturl.Target(r, stricturl.PathForm{Slash: true})
	if err != nil {
		return content.Facts{}, provider.Elsewhere(err.Error())
	}
	var read *Rule
	var resource, action string
	several := false
	for _, s := range t.Scopes.Scopes() {
		rule, at, known := j.rule(s)
		if !known || !j.adds(s, t) || !rule.Covers(r.Method, path) {
			continue
		}
		if rule.Body == nil {
			return content.Facts{}, nil
		}
		several = several || read != nil && (resource != at || action != s.Action())
		read, resource, action = &rule, at, s.Action()
	}
	switch {
	case read == nil:
		return content.Facts{}, provider.Elsewhere("its method and path are not those of the lease's scopes")
	case several:
		return content.Facts{}, provider.Elsewhere("the bodies of two scopes of its lease are configured for this path: use a lease with one of them")
	}
	if !j.bareQuery(r.URL.RawQuery) {
		return content.Facts{}, content.Refuse("its URL has parameters, which a server may read as fields")
	}
	facts, err := read.Body.Read(r, resource, action)
	if err == nil {
		err = address(r, &facts.Operations[0])
	}
	if err != nil {
		return content.Facts{}, err
	}
	return facts, checkObjects(t.Scopes, facts, read.named())
}

// address adds the method and URL of a request to its first operation: the path of a rule can be a
// pattern, and name the object of the request. Names of fields begin with a slash, unlike the name of
// this detail.
func address(r *http.Request, first *content.Operation) error {
	to := r.Method + " https://" + r.URL.Host + r.URL.EscapedPath()
	if len(to) > content.MaxDetail {
		return content.Refuse("its URL is too long to be shown to people whole")
	}
	if first.Details == nil {
		first.Details = map[string]string{}
	}
	first.Details["request"] = to
	return nil
}

// bareQuery reports whether a query has no parameter but the one that the secret was added to.
func (j Judge) bareQuery(query string) bool {
	values, err := url.ParseQuery(query)
	if name := j.cfg.Inject.Query; err == nil && name != "" && len(values[name]) == 1 {
		delete(values, name)
	}
	return err == nil && len(values) == 0
}

// checkObjects returns an error unless scopes cover every object of a request. named: the scopes of its
// rule name objects; otherwise its only operation is about the resource.
func checkObjects(have scopes.Set, facts content.Facts, named bool) error {
	objects := facts.Operations
	if named {
		objects = objects[1:]
	}
	var all []scopes.Scope
	covered := true
	for _, o := range objects {
		s, err := scopes.New(have.Providers()[0], o.Object, o.Action)
		if err != nil || s.IsPattern() {
			return &provider.UncoveredError{Why: "the name of one of its objects fits into no scope: use letters, digits and ._~@+=,-"}
		}
		all = append(all, s)
		covered = covered && slices.ContainsFunc(have.Scopes(), func(one scopes.Scope) bool { return one.Covers(s) })
	}
	if covered {
		return nil
	}
	needed, _ := scopes.NewSet(all...) // empty if they are too many for one request
	return &provider.UncoveredError{Needed: needed, Why: "the scopes of its lease do not name each object of the request, such as a recipient"}
}
