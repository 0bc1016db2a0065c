package graphql

import "github.com/ebb-broker/ebb/broker/egress/content"

// Values of arguments. A value is nil, bool, string, number, enum, []any or map[string]any. In a
// parsed document it may also be a variable.
type (
	number   string // as it is written
	enum     string
	variable string
)

// value parses a Value (section 2.9). Default values must have no variables.
func (p *parser) value(depth int, variables bool) (v any, err error) {
	if depth == maxDepth {
		return nil, errTooLarge
	}
	switch t := p.next; t.kind {
	case '$':
		if !variables {
			return nil, errSyntax
		}
		called, err := p.variable()
		return variable(called), err
	case integer, float:
		return number(t.text), p.advance()
	case text:
		return t.text, p.advance()
	case name:
		switch t.text {
		case "null":
			return nil, p.advance()
		case "true", "false":
			return t.text == "true", p.advance()
		}
		return enum(t.text), p.advance()
	case '[':
		list := []any{}
		if err := p.advance(); err != nil {
			return nil, err
		}
		for p.next.kind != ']' {
			if v, err = p.value(depth+1, variables); err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, p.advance()
	case '{':
		return p.object(depth, variables)
	}
	return nil, errSyntax
}

func (p *parser) object(depth int, variables bool) (v any, err error) {
	object := map[string]any{}
	if err := p.advance(); err != nil {
		return nil, err
	}
	for p.next.kind != '}' {
		called, err := p.name()
		if err != nil {
			return nil, err
		}
		if _, twice := object[called]; twice {
			return nil, content.Refuse("an object in its query has two members of one name")
		}
		if err := p.expect(':'); err != nil {
			return nil, err
		}
		if object[called], err = p.value(depth+1, variables); err != nil {
			return nil, err
		}
	}
	return object, p.advance()
}
