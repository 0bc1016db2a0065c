package policy

import (
	"fmt"
	"iter"

	"github.com/cedar-policy/cedar-go"
	publicast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// clause is one part of a policy that has to hold: its principal, action or resource, or one `when`
// or `unless`.
type clause struct {
	name string
	cond *node
}

type operator uint8

const (
	opLeaf operator = iota // one Cedar expression
	opAnd
	opOr
	opNot
	opIf     // kids: if, then, else
	opWithin // the resource is at or below one of targets
	opIs     // the resource is one of targets
	opVerb   // the action is one of verbs
)

// node is a condition that can be evaluated on a pattern. Cedar evaluates a leaf, unless the leaf
// depends on a part that the pattern leaves open. Comparisons of the resource and the action with
// names are decided here; the other operators combine kids.
type node struct {
	op      operator
	kids    []*node
	targets []target
	verbs   []string

	expr ast.IsNode
	leaf single // expr compiled, for a leaf

	onResource bool // depends on the path of the resource
	onAction   bool // depends on the action
}

// single is a policy set of one, for cedar.Authorize.
type single struct{ policy *cedar.Policy }

func (s single) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) { yield("condition", s.policy) }
}

// compile splits a policy into clauses.
func compile(p *ast.Policy) []clause {
	var clauses []clause
	add := func(name string, scope ast.IsScopeNode, variable string) {
		if expr := scopeExpr(scope, variable); expr != nil {
			clauses = append(clauses, clause{name, build(expr).finish()})
		}
	}
	add("principal", p.Principal, "principal")
	add("action", p.Action, "action")
	add("resource", p.Resource, "resource")
	for i, c := range p.Conditions {
		n, keyword := build(c.Body), "when"
		if c.Condition == ast.ConditionUnless {
			n, keyword = negate(n, ast.NodeTypeNot{UnaryNode: ast.UnaryNode{Arg: c.Body}}), "unless"
		}
		clauses = append(clauses, clause{fmt.Sprintf("%s #%d", keyword, i+1), n.finish()})
	}
	return clauses
}

// scopeExpr returns a scope clause as an expression; nil when it is unconstrained.
func scopeExpr(scope ast.IsScopeNode, variable string) ast.IsNode {
	v := ast.NodeTypeVariable{Name: cedar.String(variable)}
	value := func(uid cedar.EntityUID) ast.IsNode { return ast.NodeValue{Value: uid} }
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return ast.NodeTypeEquals{BinaryNode: ast.BinaryNode{Left: v, Right: value(s.Entity)}}
	case ast.ScopeTypeIn:
		return ast.NodeTypeIn{BinaryNode: ast.BinaryNode{Left: v, Right: value(s.Entity)}}
	case ast.ScopeTypeInSet:
		var set ast.NodeTypeSet
		for _, uid := range s.Entities {
			set.Elements = append(set.Elements, value(uid))
		}
		return ast.NodeTypeIn{BinaryNode: ast.BinaryNode{Left: v, Right: set}}
	case ast.ScopeTypeIs:
		return ast.NodeTypeIs{Left: v, EntityType: s.Type}
	case ast.ScopeTypeIsIn:
		return ast.NodeTypeIsIn{NodeTypeIs: ast.NodeTypeIs{Left: v, EntityType: s.Type}, Entity: value(s.Entity)}
	}
	return nil
}

func build(expr ast.IsNode) *node {
	switch e := expr.(type) {
	case ast.NodeTypeAnd:
		return join(opAnd, expr, build(e.Left), build(e.Right))
	case ast.NodeTypeOr:
		return join(opOr, expr, build(e.Left), build(e.Right))
	case ast.NodeTypeNot:
		return negate(build(e.Arg), expr)
	case ast.NodeTypeIfThenElse:
		return join(opIf, expr, build(e.If), build(e.Then), build(e.Else))
	case ast.NodeTypeEquals:
		return buildEquals(expr, e.BinaryNode)
	case ast.NodeTypeNotEquals:
		equal := ast.NodeTypeEquals(e)
		return negate(buildEquals(equal, e.BinaryNode), expr)
	case ast.NodeTypeIn:
		if n := named(opWithin, e.Left, e.Right); n != nil {
			return n
		}
	case ast.NodeTypeIsIn:
		if n := named(opWithin, e.Left, e.Entity); n != nil && n.op == opWithin && e.EntityType == typeResource {
			return n
		}
	}
	return leaf(expr)
}

func leaf(expr ast.IsNode) *node {
	n := &node{op: opLeaf, expr: expr}
	n.onResource, n.onAction = dependsOn(expr)
	return n
}

func buildEquals(expr ast.IsNode, sides ast.BinaryNode) *node {
	if n := named(opIs, sides.Left, sides.Right); n != nil {
		return n
	}
	if n := named(opIs, sides.Right, sides.Left); n != nil {
		return n
	}
	return leaf(expr)
}

// named returns the node that compares the resource or the action with names in the policy; nil for
// any other expression.
func named(op operator, variable, literal ast.IsNode) *node {
	found, ok := literals(literal)
	switch {
	case !ok:
		return nil
	case isResource(variable) && len(found.actions) == 0:
		return &node{op: op, targets: found.resources, onResource: true}
	case isVariable(variable, "action") && len(found.resources) == 0:
		return &node{op: opVerb, verbs: found.actions, onAction: true}
	}
	return nil
}

func join(op operator, expr ast.IsNode, kids ...*node) *node {
	n := &node{op: op, expr: expr, kids: kids}
	for _, k := range kids {
		n.onResource = n.onResource || k.onResource
		n.onAction = n.onAction || k.onAction
	}
	return n
}

func negate(n *node, expr ast.IsNode) *node { return join(opNot, expr, n) }

// finish compiles the expressions that Cedar evaluates: the largest ones that no pattern leaves
// open, and the smallest ones that a pattern may leave open. Doing it once, from the top, keeps a
// long chain of operators linear.
func (n *node) finish() *node {
	if !n.onResource && !n.onAction {
		n.op, n.kids = opLeaf, nil // all of it, in one evaluation
	}
	if n.op == opLeaf {
		permit := ast.Permit().When(ast.NewNode(n.expr))
		n.leaf = single{cedar.NewPolicyFromAST((*publicast.Policy)(permit))}
	}
	for _, k := range n.kids {
		k.finish()
	}
	n.expr = nil
	return n
}

// dependsOn reports whether an expression can differ between the resources, or the actions, that a
// pattern matches. Only the provider, the type, and the parts of the context besides the action are
// the same for all of them.
func dependsOn(expr ast.IsNode) (onResource, onAction bool) {
	ast.Inspect(ast.NewNode(expr), func(n ast.IsNode) bool {
		switch n := n.(type) {
		case ast.NodeTypeAccess:
			switch {
			case isResource(n.Arg) && n.Value == "provider":
				return false
			case isVariable(n.Arg, "context"):
				onAction = onAction || n.Value == "action"
				return false
			}
		case ast.NodeTypeIs:
			return !isResource(n.Left)
		case ast.NodeTypeVariable:
			onResource = onResource || n.Name == "resource"
			onAction = onAction || n.Name == "action" || n.Name == "context"
		}
		return true
	})
	return onResource, onAction
}

func isResource(n ast.IsNode) bool { return isVariable(n, "resource") }

func isVariable(n ast.IsNode, name cedar.String) bool {
	v, ok := n.(ast.NodeTypeVariable)
	return ok && v.Name == name
}

// literals returns the resources, providers and actions written in the policy, alone or in a set.
func literals(n ast.IsNode) (found names, ok bool) {
	switch n := n.(type) {
	case ast.NodeValue:
		uids := valueEntities(n.Value)
		for _, uid := range uids {
			found.add(uid)
		}
		return found, len(uids) > 0 && len(uids) == len(found.resources)+len(found.actions)
	case ast.NodeTypeSet:
		for _, element := range n.Elements {
			more, ok := literals(element)
			if !ok {
				return names{}, false
			}
			found.resources = append(found.resources, more.resources...)
			found.actions = append(found.actions, more.actions...)
		}
		return found, len(n.Elements) > 0
	}
	return names{}, false
}
