package policy

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

// The entity types of the schema.
const (
	typeAttestor cedar.EntityType = "Ebb::Attestor"
	typeSandbox  cedar.EntityType = "Ebb::Sandbox"
	typeProvider cedar.EntityType = "Ebb::Provider"
	typeResource cedar.EntityType = "Ebb::Resource"
	typeTask     cedar.EntityType = "Ebb::Task"
	typeAction   cedar.EntityType = "Ebb::Action"

	namespace = "Ebb"
)

//go:embed schema.cedarschema
var schemaText string

// Schema returns the Cedar schema against which policies are validated, as text.
func Schema() string { return schemaText }

// checker validates policies against the schema.
type checker struct {
	parsed *schemaast.Schema
}

func newChecker() (*checker, error) {
	var s schema.Schema
	s.SetFilename("schema.cedarschema")
	if err := s.UnmarshalCedar([]byte(schemaText)); err != nil {
		return nil, fmt.Errorf("policy: the built-in schema does not parse: %w", err)
	}
	return &checker{parsed: s.AST()}, nil
}

// problems validates one policy. Its schema contains only the actions that this policy names: the
// context is the same for all actions, so more actions would repeat every problem.
func (c *checker) problems(p *ast.Policy, actions []string) []string {
	actions = append(slices.Clone(actions), "read") // a policy for any action needs one for validation
	declared := *c.parsed
	declared.Namespaces = maps.Clone(c.parsed.Namespaces)
	space := declared.Namespaces[namespace]
	one := space.Actions["read"]
	space.Actions = schemaast.Actions{}
	for _, name := range actions {
		space.Actions[cedar.String(name)] = one
	}
	declared.Namespaces[namespace] = space
	resolved, err := schema.NewSchemaFromAST(&declared).Resolve()
	if err != nil {
		return []string{fmt.Sprintf("the schema cannot be resolved with the actions named here: %v", err)}
	}
	found := flatten(validate.New(resolved).Policy("", p))
	if len(found) > 0 {
		// The validator does not look at the conditions of a policy whose scope it refuses.
		open := *p
		open.Principal, open.Action, open.Resource = ast.ScopeTypeAll{}, ast.ScopeTypeAll{}, ast.ScopeTypeAll{}
		found = append(found, flatten(validate.New(resolved).Policy("", &open))...)
	}
	var texts []string
	for _, err := range found {
		text := err.Error()
		for _, name := range actions {
			uid := cedar.NewEntityUID(typeAction, cedar.String(name))
			text = strings.ReplaceAll(text, "in context for "+uid.String(), "in context")
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	unknown := func(text string) bool { return strings.HasPrefix(text, "unrecognized ") }
	return slices.DeleteFunc(texts, func(text string) bool { // it follows from an unknown name
		return text == inapplicable && slices.ContainsFunc(texts, unknown)
	})
}

// inapplicable is the validator's text for a scope that no request can have.
const inapplicable = "unable to find an applicable action given the policy scope constraints"

func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var flat []error
		for _, e := range many.Unwrap() {
			flat = append(flat, flatten(e)...)
		}
		return flat
	}
	return []error{err}
}
