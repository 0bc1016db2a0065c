package graphql

import (
	"slices"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// operation is an OperationDefinition (section 2.3).
type operation struct {
	action    string
	name      string // "" = anonymous
	variables []definition
	set       []selection
}

// definition is a VariableDefinition (section 2.10).
type definition struct {
	name     string
	initial  any
	defaults bool // there is a default value, initial
}

// fragment is a FragmentDefinition (section 2.8).
type fragment struct {
	on     string
	set    []selection
	active bool // its selections are being inserted
}

// selection is a Selection (section 2.4).
type selection struct {
	kind  selectionKind
	name  string      // of the field or fragment, or an inline fragment's type condition ("" = none)
	alias string      // "" = none
	input *input      // nil = without arguments and directives
	set   []selection // nil = none
}

type selectionKind uint8

const (
	aField selectionKind = iota
	aSpread
	anInline
)

// input has the arguments of a selection and the conditions of its directives.
type input struct {
	arguments  []argument
	conditions []argument     // of @skip and @include
	values     map[string]any // arguments with values in place of variables
	resolved   bool           // values is set
}

type argument struct {
	name  string
	value any
}

// parser parses a document by recursive descent.
type parser struct {
	lexer
	operations []operation
	fragments  map[string]*fragment
	open       []selection // of the sets whose end was not read yet
}

// document parses every definition.
func (p *parser) document() error {
	p.fragments = map[string]*fragment{}
	if err := p.advance(); err != nil {
		return err
	}
	for p.next.kind != end {
		if len(p.operations)+len(p.fragments) == maxParts {
			return errTooLarge
		}
		if err := p.definition(); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) definition() (err error) {
	o := operation{action: "query"}
	switch {
	case p.next.kind == '{':
	case p.next == token{name, "fragment"}:
		return p.fragment()
	case p.next == token{name, "subscription"}:
		return content.Refuse("subscriptions are not supported")
	case p.next == token{name, "query"}, p.next == token{name, "mutation"}:
		o.action = p.next.text
		if err := p.advance(); err != nil {
			return err
		}
		if p.next.kind == name {
			if o.name, err = p.name(); err != nil {
				return err
			}
		}
		if p.next.kind == '(' {
			if o.variables, err = p.variableDefinitions(); err != nil {
				return err
			}
		}
	default:
		return errSyntax
	}
	if slices.ContainsFunc(p.operations, func(other operation) bool { return other.name == o.name || other.name == "" || o.name == "" }) {
		return content.Refuse("its query has two operations of one name, or an operation without a name beside others")
	}
	if o.set, err = p.selections(0); err != nil {
		return err
	}
	p.operations = append(p.operations, o)
	return nil
}

func (p *parser) fragment() (err error) {
	if err := p.advance(); err != nil {
		return err
	}
	f := &fragment{}
	called, err := p.name()
	if err != nil {
		return err
	}
	if called == "on" || p.next != (token{name, "on"}) {
		return errSyntax
	}
	if err := p.advance(); err != nil {
		return err
	}
	if f.on, err = p.name(); err != nil {
		return err
	}
	if f.set, err = p.selections(0); err != nil {
		return err
	}
	if p.fragments[called] != nil {
		return content.Refuse("its query has two fragments of one name")
	}
	p.fragments[called] = f
	return nil
}

// selections parses a SelectionSet.
func (p *parser) selections(depth int) (set []selection, err error) {
	if err := p.expect('{'); err != nil {
		return nil, err
	}
	if depth == maxDepth {
		return nil, errTooLarge
	}
	from := len(p.open)
	for p.next.kind != '}' || len(p.open) == from {
		s, err := p.selection(depth)
		if err != nil {
			return nil, err
		}
		p.open = append(p.open, s)
	}
	set = slices.Clone(p.open[from:])
	p.open = p.open[:from]
	return set, p.advance()
}

func (p *parser) selection(depth int) (s selection, err error) {
	if p.next.kind != spread {
		return p.field(depth)
	}
	if err := p.advance(); err != nil {
		return s, err
	}
	s.kind = anInline
	switch {
	case p.next == token{name, "on"}:
		if err := p.advance(); err != nil {
			return s, err
		}
		if s.name, err = p.name(); err != nil {
			return s, err
		}
	case p.next.kind == name:
		s.kind = aSpread
		if s.name, err = p.name(); err != nil {
			return s, err
		}
	}
	if err := p.directives(&s); err != nil || s.kind == aSpread {
		return s, err
	}
	s.set, err = p.selections(depth + 1)
	return s, err
}

// field parses a Field.
func (p *parser) field(depth int) (s selection, err error) {
	if s.name, err = p.name(); err != nil {
		return s, err
	}
	if p.next.kind == ':' {
		if err := p.advance(); err != nil {
			return s, err
		}
		s.alias = s.name
		if s.name, err = p.name(); err != nil {
			return s, err
		}
	}
	if p.next.kind == '(' {
		s.input = &input{}
		if s.input.arguments, err = p.arguments(); err != nil {
			return s, err
		}
	}
	if err := p.directives(&s); err != nil || p.next.kind != '{' {
		return s, err
	}
	s.set, err = p.selections(depth + 1)
	return s, err
}

var errDirective = content.Refuse("its query has directives other than @skip(if:) and @include(if:)")

// directives parses the directives of a selection. Others than @skip and @include could change what
// is executed.
func (p *parser) directives(s *selection) error {
	for p.next.kind == '@' {
		if err := p.advance(); err != nil {
			return err
		}
		called, err := p.name()
		if err != nil {
			return err
		}
		if called != "skip" && called != "include" || p.next.kind != '(' {
			return errDirective
		}
		arguments, err := p.arguments()
		if err != nil {
			return err
		}
		if len(arguments) != 1 || arguments[0].name != "if" {
			return errDirective
		}
		if s.input == nil {
			s.input = &input{}
		}
		s.input.conditions = append(s.input.conditions, arguments[0])
	}
	return nil
}

func (p *parser) arguments() (all []argument, err error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	for {
		a := argument{}
		if a.name, err = p.name(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other argument) bool { return other.name == a.name }) {
			return nil, content.Refuse("a field in its query has two arguments of one name")
		}
		if err := p.expect(':'); err != nil {
			return nil, err
		}
		if a.value, err = p.value(0, true); err != nil {
			return nil, err
		}
		if all = append(all, a); len(all) > maxParts {
			return nil, errTooLarge
		}
		if p.next.kind == ')' {
			return all, p.advance()
		}
	}
}

// variableDefinitions parses VariablesDefinition. Directives are refused there.
func (p *parser) variableDefinitions() (all []definition, err error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	for {
		d := definition{}
		if d.name, err = p.variable(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other definition) bool { return other.name == d.name }) {
			return nil, content.Refuse("its query defines a variable twice")
		}
		if err := p.expect(':'); err != nil {
			return nil, err
		}
		if err := p.typeReference(0); err != nil {
			return nil, err
		}
		if p.next.kind == '=' {
			if err := p.advance(); err != nil {
				return nil, err
			}
			if d.initial, err = p.value(0, false); err != nil {
				return nil, err
			}
			d.defaults = true
		}
		if all = append(all, d); len(all) > maxParts {
			return nil, errTooLarge
		}
		if p.next.kind == ')' {
			return all, p.advance()
		}
	}
}

// typeReference skips a Type (section 2.11). Types decide nothing here: the server refuses values
// of another type.
func (p *parser) typeReference(depth int) error {
	if p.next.kind == '[' {
		if depth == maxDepth {
			return errTooLarge
		}
		if err := p.advance(); err != nil {
			return err
		}
		if err := p.typeReference(depth + 1); err != nil {
			return err
		}
		if err := p.expect(']'); err != nil {
			return err
		}
	} else if _, err := p.name(); err != nil {
		return err
	}
	if p.next.kind == '!' {
		return p.advance()
	}
	return nil
}

func (p *parser) variable() (string, error) {
	if err := p.expect('$'); err != nil {
		return "", err
	}
	return p.name()
}

// name reads a name, of any kind.
func (p *parser) name() (string, error) {
	t := p.next
	return t.text, p.expect(name)
}

// expect skips a token of a kind.
func (p *parser) expect(k kind) error {
	if p.next.kind != k {
		return errSyntax
	}
	return p.advance()
}
