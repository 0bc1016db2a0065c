package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// request is one query in Cedar's form, for each of its scopes in turn. It is the entity store of
// its evaluation.
type request struct {
	query   Query
	scope   scopes.Scope // the current scope
	task    cedar.EntityUID
	context cedar.RecordMap
	cedar   cedar.Request

	// Entities are made when a policy reads them: most policies use only the resource's name.
	known struct{ principal, task, resource *cedar.Entity }

	provider  string
	verb      string
	pattern   []string // segments of the scope's resource
	openPath  bool     // the resource is a pattern
	openVerb  bool     // the action is "*"
	isPattern bool
}

// Get makes a request a cedar.EntityGetter.
func (r *request) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
	var known **cedar.Entity
	var make func() cedar.Entity
	switch uid {
	case r.cedar.Resource:
		known, make = &r.known.resource, r.resourceEntity
	case r.cedar.Principal:
		known, make = &r.known.principal, r.principalEntity
	case r.task:
		known, make = &r.known.task, r.taskEntity
	default:
		return cedar.Entity{}, false
	}
	if *known == nil {
		e := make()
		*known = &e
	}
	return **known, true
}

func newRequest(q Query) *request {
	r := &request{query: q, task: cedar.NewEntityUID(typeTask, cedar.String(q.Task.ID))}
	r.context = cedar.RecordMap{
		"task":     r.task,
		"tool":     cedar.String(q.Tool),
		"ttl":      cedar.Long(seconds(q.TTL)),
		"binding":  cedar.String(q.Binding),
		"delivery": cedar.String(q.Delivery),

		"could_stay":       cedar.Boolean(q.CouldStay),
		"revocability":     cedar.String(q.Revocability),
		"revocation_bound": cedar.Long(seconds(q.Bound)),

		"record": cedar.NewRecord(cedar.RecordMap{
			"denials":    cedar.Long(q.Record.Denials),
			"violations": cedar.Long(q.Record.Violations),
		}),
		"taint":   stringSet(q.Taint),
		"content": q.Content.record(),
	}
	r.cedar.Principal = cedar.NewEntityUID(typeSandbox, cedar.String(q.Sandbox.ID))
	return r
}

// record returns the content in Cedar's form. Amount.Value and cedar.Decimal both count
// ten-thousandths.
func (c Content) record() cedar.Record {
	sum, _ := cedar.NewDecimal(c.Amount.Value, -amount.Places) // cannot fail: the exponent is in range
	return cedar.NewRecord(cedar.RecordMap{
		"kind":    cedar.String(c.Kind),
		"actions": stringSet(c.Actions),
		"objects": stringSet(c.Objects),
		"unit":    cedar.String(c.Amount.Unit),
		"amount":  sum,
	})
}

func stringSet(list []string) cedar.Set {
	values := make([]cedar.Value, len(list))
	for i, text := range list {
		values[i] = cedar.String(text)
	}
	return cedar.NewSet(values...)
}

func (r *request) principalEntity() cedar.Entity {
	s := r.query.Sandbox
	return cedar.Entity{
		UID:     r.cedar.Principal,
		Parents: cedar.NewEntityUIDSet(cedar.NewEntityUID(typeAttestor, cedar.String(s.Attestor))),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"attestor": cedar.String(s.Attestor),
			"evidence": cedar.String(s.Evidence),
			"subject":  cedar.String(s.Subject),
		}),
		Tags: tags(s.Selectors),
	}
}

func (r *request) taskEntity() cedar.Entity {
	t := r.query.Task
	return cedar.Entity{
		UID: r.task,
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"kind":  cedar.String(t.Kind),
			"owner": cedar.String(t.Owner),
			"name":  cedar.String(t.Name),
			"age":   cedar.Long(seconds(t.Age)),
			"depth": cedar.Long(t.Depth),
		}),
		Tags: tags(t.Labels),
	}
}

// resourceEntity returns an entity below its provider and below every resource along its path.
func (r *request) resourceEntity() cedar.Entity {
	path := r.scope.Resource()
	parents := []cedar.EntityUID{cedar.NewEntityUID(typeProvider, cedar.String(r.provider))}
	for i, c := range path {
		if c == '/' {
			parents = append(parents, resourceUID(r.provider, path[:i]))
		}
	}
	return cedar.Entity{
		UID:     r.cedar.Resource,
		Parents: cedar.NewEntityUIDSet(parents...),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"provider": cedar.String(r.provider),
			"path":     cedar.String(path),
			"depth":    cedar.Long(len(r.pattern)),
		}),
	}
}

func tags(m map[string]string) cedar.Record {
	record := make(cedar.RecordMap, len(m))
	for k, v := range m {
		record[cedar.String(k)] = cedar.String(v)
	}
	return cedar.NewRecord(record)
}

// aim sets the current scope. For a pattern, the path, the depth and the "*" action are
// placeholders: no expression that reads them is evaluated (see dependsOn).
func (r *request) aim(s scopes.Scope) {
	path := s.Resource()
	r.scope, r.provider, r.pattern, r.verb = s, s.Provider(), s.Segments(), s.Action()
	r.isPattern = s.IsPattern()
	r.openVerb = s.Action() == scopes.Any
	r.openPath = strings.Contains(path, scopes.Any)

	r.known.resource = nil
	r.context["action"] = cedar.String(s.Action())
	r.context["wildcard"] = cedar.Boolean(r.isPattern)
	r.cedar.Resource = resourceUID(r.provider, path)
	r.cedar.Action = cedar.NewEntityUID(typeAction, cedar.String(s.Action()))
	r.cedar.Context = cedar.NewRecord(r.context)
}

func resourceUID(provider, path string) cedar.EntityUID {
	return cedar.NewEntityUID(typeResource, cedar.String(provider+":"+path))
}

// holds evaluates one node. The error wraps ErrEvaluation.
func (r *request) holds(n *node) (tri, error) {
	switch n.op {
	case opAnd:
		return r.fold(n.kids, no)
	case opOr:
		return r.fold(n.kids, yes)
	case opNot:
		t, err := r.holds(n.kids[0])
		return t.not(), err
	case opIf:
		return r.branch(n.kids[0], n.kids[1], n.kids[2])
	case opWithin, opIs, opVerb:
		return r.named(n), nil
	}
	if n.onResource && r.openPath || n.onAction && r.openVerb {
		return maybe, nil
	}
	decision, diagnostic := cedar.Authorize(n.leaf, r, r.cedar)
	if len(diagnostic.Errors) > 0 {
		return no, fmt.Errorf("%w: %s", ErrEvaluation, diagnostic.Errors[0].Message)
	}
	return truth(decision == cedar.Allow), nil
}

// named compares the resource or the action with names. It cannot fail.
func (r *request) named(n *node) tri {
	if n.op == opVerb {
		if r.openVerb {
			return maybe
		}
		return truth(slices.Contains(n.verbs, r.verb))
	}
	found := no
	for _, t := range n.targets {
		found = max(found, relate(r.provider, r.pattern, t, n.op == opWithin))
	}
	return found
}

// reaches returns false when the policy's scope clause names another action or resource. It does
// not use Cedar, and most policies are excluded by it.
func (r *request) reaches(rule *rule) bool {
	for _, n := range rule.scope {
		if r.named(n) == no {
			return false
		}
	}
	return true
}

// fold is "and" when decisive is no, "or" when it is yes. Like Cedar it stops at the deciding side,
// because the other side may fail.
func (r *request) fold(kids []*node, decisive tri) (tri, error) {
	result := decisive.not()
	for _, k := range kids {
		t, err := r.holds(k)
		switch {
		case err != nil:
			return no, err
		case t == decisive:
			return decisive, nil
		case t == maybe:
			result = maybe
		}
	}
	return result, nil
}

func (r *request) branch(condition, then, otherwise *node) (tri, error) {
	t, err := r.holds(condition)
	switch {
	case err != nil:
		return no, err
	case t == yes:
		return r.holds(then)
	case t == no:
		return r.holds(otherwise)
	}
	a, err := r.holds(then)
	if err != nil {
		return no, err
	}
	b, err := r.holds(otherwise)
	if err != nil || a == b {
		return a, err
	}
	return maybe, nil
}
