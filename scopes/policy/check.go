package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/ebb-broker/ebb/scopes"
)

// names are the entities of ebb's grammar that a policy names.
type names struct {
	resources []target
	actions   []string
}

// target is a resource or a provider that a policy names. path is nil for a whole provider.
type target struct {
	provider string
	path     []string
}

// readNames checks in a policy what the Cedar validator cannot know: whether the names of
// resources, providers and actions are possible. A name that no scope can have would make a permit
// dead, and a forbid too.
func readNames(p *ast.Policy) (found names, problems []string) {
	complain := func(text string) {
		if !slices.Contains(problems, text) {
			problems = append(problems, text)
		}
	}
	visit := func(uid cedar.EntityUID) {
		if fault := found.add(uid); fault != "" {
			complain(fmt.Sprintf("%s: %s", uid, fault))
		}
	}
	for _, scope := range []ast.IsScopeNode{p.Principal, p.Action, p.Resource} {
		for _, uid := range scopeEntities(scope) {
			visit(uid)
		}
	}
	for _, condition := range p.Conditions {
		ast.Inspect(ast.NewNode(condition.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeValue:
				for _, uid := range valueEntities(n.Value) {
					visit(uid)
				}
			case ast.NodeTypeHas:
				complain(fmt.Sprintf("`has %s`: every attribute is always present; compare its value (selectors and labels are tags: use hasTag)", n.Value))
			}
			return true
		})
	}
	slices.Sort(found.actions)
	found.actions = slices.Compact(found.actions)
	return found, problems
}

func (n *names) add(uid cedar.EntityUID) (fault string) {
	id := string(uid.ID)
	switch uid.Type {
	case typeResource:
		t, ok := parseTarget(id)
		if !ok {
			return "not a concrete provider:path; write `resource in` to reach what lies below it"
		}
		n.resources = append(n.resources, t)
	case typeProvider:
		if _, err := scopes.New(id, "x", "x"); err != nil {
			return "no scope can have this provider"
		}
		n.resources = append(n.resources, target{provider: id})
	case typeAction:
		n.actions = append(n.actions, id)
		if s, err := scopes.New("x", "x", id); err != nil || s.IsPattern() {
			return "no scope can have this action; leave `action` open to mean any"
		}
	case typeSandbox, typeAttestor, typeTask:
		if id == "" {
			return "the id is empty"
		}
	}
	return ""
}

// parseTarget reads `provider:path`, concrete.
func parseTarget(id string) (target, bool) {
	provider, path, _ := strings.Cut(id, ":")
	s, err := scopes.New(provider, path, "x")
	if err != nil || s.IsPattern() {
		return target{}, false
	}
	return target{provider: provider, path: s.Segments()}, true
}

func scopeEntities(scope ast.IsScopeNode) []cedar.EntityUID {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return []cedar.EntityUID{s.Entity}
	case ast.ScopeTypeIn:
		return []cedar.EntityUID{s.Entity}
	case ast.ScopeTypeIsIn:
		return []cedar.EntityUID{s.Entity}
	case ast.ScopeTypeInSet:
		return s.Entities
	}
	return nil
}

// valueEntities are the entities in a literal, alone or in a set.
func valueEntities(v cedar.Value) (found []cedar.EntityUID) {
	switch v := v.(type) {
	case cedar.EntityUID:
		return []cedar.EntityUID{v}
	case cedar.Set:
		for member := range v.All() {
			found = append(found, valueEntities(member)...)
		}
	}
	return found
}
