package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/ebb-broker/ebb/broker/secret"
)

// maxFile is the maximum size in bytes of a configuration file, so that a wrong
// path is refused quickly.
const maxFile = 1 << 20

// field is one member of a mapping and the destination of its value: a type
// that set accepts, *json.RawMessage for a subtree that a kind decodes, or a
// func for a list of mappings.
type field struct {
	name string
	to   any
}

// reader reads one YAML document. It continues after a problem, so that one run
// reports all of them.
type reader struct {
	name     string            // of the file or variable, for messages
	lines    bool              // messages name the line
	problems *Problems         //
	src      map[string]string // key -> file and line, or variable, of its value
}

func (r *reader) where(n ast.Node) string {
	if tok := n.GetToken(); r.lines && tok != nil && tok.Position != nil {
		return fmt.Sprintf("%s:%d", r.name, tok.Position.Line)
	}
	return r.name
}

// document parses one YAML document and returns its root node. A nil node
// without a problem is an empty document.
func (r *reader) document(text []byte) ast.Node {
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		said, _, _ := strings.Cut(yaml.FormatError(err, false, false), "\n")
		r.problems.add(r.name, "", "it is not YAML: "+said, "fix the syntax at that place")
		return nil
	}
	if len(f.Docs) > 1 {
		r.problems.add(r.name, "", "it contains more than one document", "keep one; remove the --- lines")
		return nil
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil {
		return nil
	}
	root := f.Docs[0].Body
	for _, kind := range []ast.NodeType{ast.AnchorType, ast.AliasType, ast.MergeKeyType, ast.TagType} {
		if found := ast.Filter(kind, root); len(found) > 0 {
			r.problems.add(r.name, r.where(found[0]), "anchors, aliases, merge keys and tags are not supported", "write the values out")
			return nil
		}
	}
	return root
}

// members returns the members of a mapping; anything else is a problem.
func (r *reader) members(path string, n ast.Node) []*ast.MappingValueNode {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}
	}
	r.problems.add(path, r.where(n), "it must be a mapping of keys to values", "write the keys below it, indented")
	return nil
}

// mapping stores the members of n in fields.
func (r *reader) mapping(path string, n ast.Node, fields []field) {
	for _, m := range r.members(path, n) {
		name := scalarText(m.Key)
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		full := join(path, name)
		if i < 0 {
			names := make([]string, len(fields))
			for j, f := range fields {
				names[j] = f.name
			}
			r.problems.add(full, r.where(m.Key), "there is no such key", "remove it; "+near(name, names))
			continue
		}
		r.src[full] = r.where(m.Key)
		r.assign(full, m.Value, fields[i].to)
	}
}

func (r *reader) assign(path string, n ast.Node, to any) {
	if n == nil || n.Type() == ast.NullType {
		r.problems.add(path, r.src[path], "it has no value", "set a value or remove the line")
		return
	}
	switch p := to.(type) {
	case func(string, ast.Node):
		p(path, n)
	case *[]string:
		*p = nil
		for i, item := range r.items(path, n) {
			if text, ok := scalar(item); ok {
				*p = append(*p, text)
			} else {
				r.problems.add(fmt.Sprintf("%s[%d]", path, i), r.where(item), "it must be a string", "write one value")
			}
		}
	case *map[string]string:
		*p = map[string]string{}
		for _, m := range r.members(path, n) {
			text, ok := scalar(m.Value)
			if !ok {
				r.problems.add(join(path, scalarText(m.Key)), r.where(m), "it must be a string", "write one value")
			}
			(*p)[scalarText(m.Key)] = text
		}
	case *json.RawMessage:
		b, err := subtree(n)
		if err != nil {
			r.problems.add(path, r.where(n), err.Error(), "write it as a mapping")
		}
		*p = b
	default:
		text, ok := scalar(n)
		if !ok {
			r.problems.add(path, r.where(n), "it must be one value, not a list or mapping", "write one value")
			return
		}
		if err := set(to, text); err != nil {
			r.problems.add(path, r.where(n), err.Error(), "change the value")
		}
	}
}

// items returns the elements of a list; anything else is a problem.
func (r *reader) items(path string, n ast.Node) []ast.Node {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.problems.add(path, r.where(n), "it must be a list", "write [a, b] or one '- ' line for each")
		return nil
	}
	return list.Values
}

// subtree returns n as JSON, for the decoder of a kind.
func subtree(n ast.Node) (json.RawMessage, error) {
	var v map[string]any
	if err := yaml.NodeToValue(n, &v); err != nil {
		return nil, errors.New("it must be a mapping of keys to values")
	}
	return json.Marshal(v)
}

func scalar(n ast.Node) (string, bool) {
	switch n.Type() {
	case ast.StringType, ast.LiteralType, ast.IntegerType, ast.FloatType, ast.BoolType:
		return scalarText(n), true
	}
	return "", false
}

func scalarText(n ast.Node) string {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value
	case *ast.LiteralNode:
		return strings.TrimRight(v.Value.Value, "\n")
	}
	return n.GetToken().Value
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// choice is a string with a fixed set of values.
type choice struct {
	to  *string
	are []string
}

// set stores text into to, a pointer into Config.
func set(to any, text string) error {
	switch p := to.(type) {
	case *string:
		if strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("it contains a control character; write it on one line")
		}
		*p = text
	case choice:
		if !slices.Contains(p.are, text) {
			return fmt.Errorf("%q is not one of %s", text, strings.Join(p.are, ", "))
		}
		*p.to = text
	case *bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is not true or false", text)
		}
		*p = v
	case *int:
		v, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return fmt.Errorf("%q is not a whole number from 0 to 2147483647", text)
		}
		*p = int(v)
	case *time.Duration:
		v, err := time.ParseDuration(text)
		if err != nil || v < 0 {
			return fmt.Errorf("%q is not a duration such as 90s, 10m or 24h", text)
		}
		*p = v
	case secretKey:
		if strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("it contains a control character")
		}
		*p.to = secret.New(text)
	case *[]string:
		*p = nil
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*p = append(*p, part)
			}
		}
	default:
		return errors.New("it is a list of mappings; write it in YAML")
	}
	return nil
}
