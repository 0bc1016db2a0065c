package graphql

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// Document is the operation of a request that runs.
type Document struct {
	Action string  // "query" or "mutation"
	Fields []Field // of the root, at least one, in the order of execution

	body string // hex SHA-256 of the whole body
}

// Field is a field that is executed. Fields of one response name are not merged.
type Field struct {
	Name      string
	Key       string         // its alias, or else its name
	On        string         // type condition of the innermost fragment around it; "" = the type of its parent
	Arguments map[string]any // strings are of type string, and null is nil; no other type is exported
	Fields    []Field        // its selection
}

// maxDetails is the size in bytes of all details of a document's facts, without their names.
const maxDetails = 16 << 10

// Facts returns one operation for each root field. arguments are paths such as "owner" or
// "input.pullRequestId": their values become details when they are strings, numbers, enums or
// booleans. Long values are cut, in documents of many fields to less than content.MaxDetail. The digest
// of the body covers what no detail shows.
func (d *Document) Facts(arguments ...string) content.Facts {
	most := min(content.MaxDetail, maxDetails/(len(d.Fields)*max(1, len(arguments))))
	f := content.Facts{Body: d.body, Kind: "graphql", Operations: make([]content.Operation, 0, len(d.Fields))}
	for _, root := range d.Fields {
		o := content.Operation{Action: d.Action, Object: root.Name}
		for _, path := range arguments {
			if value, is := scalar(root.Argument(path)); is {
				if o.Details == nil {
					o.Details = map[string]string{}
				}
				o.Details[path] = shorten(value, most)
			}
		}
		f.Operations = append(f.Operations, o)
	}
	return f
}

// Argument returns the value at a path such as "owner" or "input.pullRequestId"; nil if there is
// none.
func (f *Field) Argument(path string) any {
	var at any = f.Arguments
	for part := range strings.SplitSeq(path, ".") {
		object, is := at.(map[string]any)
		if !is {
			return nil
		}
		at = object[part]
	}
	return at
}

func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case number:
		return string(v), true
	case enum:
		return string(v), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	}
	return "", false
}

// shorten cuts a text that is longer than most bytes.
func shorten(s string, most int) string {
	const mark = "…"
	if len(s) <= most {
		return s
	}
	n := max(0, most-len(mark))
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// parse returns the operation of a document that a server runs (section 6.1): the one of the name,
// or without a name the only one.
func parse(query, operationName string, variables map[string]any) (*Document, error) {
	p := parser{lexer: lexer{src: query}}
	if err := p.document(); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(p.operations, func(o operation) bool { return o.name == operationName })
	switch {
	case len(p.operations) == 0:
		return nil, content.Refuse("its query has no operation")
	case operationName == "" && len(p.operations) > 1:
		return nil, content.Refuse("its query has several operations, and no operationName selects one")
	case operationName == "":
		i = 0
	case i < 0:
		return nil, content.Refuse("its operationName is not the name of an operation of its query")
	}
	o := &p.operations[i]
	x := expansion{fragments: p.fragments, variables: map[string]any{}, declared: map[string]bool{}}
	for _, v := range o.variables {
		x.declared[v.name] = true
		if value, given := variables[v.name]; given {
			x.variables[v.name] = value
		} else if v.defaults {
			x.variables[v.name] = v.initial
		}
	}
	fields, err := x.insert(nil, o.set, "", 0)
	if err != nil {
		return nil, err
	}
	if len(fields) > content.MaxOperations {
		return nil, errTooLarge
	}
	return &Document{Action: o.action, Fields: fields}, nil
}

// expansion inserts fragments and the values of variables. Each selection that it visits counts, so
// that fragments within fragments cannot multiply the work.
type expansion struct {
	fragments map[string]*fragment
	variables map[string]any  // those that have a value
	declared  map[string]bool // variables of the operation
	count     int
}

// insert appends the fields of a set to fields.
func (x *expansion) insert(fields []Field, set []selection, on string, depth int) ([]Field, error) {
	if depth > maxDepth {
		return nil, errTooLarge
	}
	fields = slices.Grow(fields, len(set))
	for i := range set {
		if x.count++; x.count > maxFields {
			return nil, errTooLarge
		}
		s := set[i]
		values, err := x.values(s.input)
		if err != nil {
			return nil, err
		}
		switch s.kind {
		case aSpread:
			f := x.fragments[s.name]
			if f == nil {
				return nil, content.Refuse("its query uses a fragment that it does not define")
			}
			if f.active {
				return nil, content.Refuse("a fragment in its query contains itself")
			}
			f.active = true
			fields, err = x.insert(fields, f.set, f.on, depth+1)
			f.active = false
		case anInline:
			fields, err = x.insert(fields, s.set, cmp.Or(s.name, on), depth+1)
		case aField:
			f := Field{Name: s.name, Key: cmp.Or(s.alias, s.name), On: on, Arguments: values}
			if s.set != nil {
				f.Fields, err = x.insert(nil, s.set, "", depth+1)
			}
			fields = append(fields, f)
		}
		if err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// values returns the arguments of a selection. They are resolved once, however often the selection
// is inserted.
func (x *expansion) values(in *input) (map[string]any, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // there are none
	}
	if in.resolved {
		return in.values, nil
	}
	in.resolved = true
	for _, c := range in.conditions {
		if _, _, err := x.resolve(c.value); err != nil {
			return nil, err
		}
	}
	if len(in.arguments) > 0 {
		in.values = make(map[string]any, len(in.arguments))
	}
	for _, a := range in.arguments {
		value, given, err := x.resolve(a.value)
		if err != nil {
			return nil, err
		}
		if given {
			in.values[a.name] = value
		}
	}
	return in.values, nil
}

// resolve returns a value with the values of its variables. given is false for a variable without a
// value: the argument or member is then as if it were left out (section 6.4.1), and in a list null.
func (x *expansion) resolve(v any) (value any, given bool, err error) {
	switch v := v.(type) {
	case variable:
		if !x.declared[string(v)] {
			return nil, false, content.Refuse("its query uses a variable that it does not define")
		}
		value, given = x.variables[string(v)]
		return value, given, nil
	case []any:
		for i := range v {
			if v[i], _, err = x.resolve(v[i]); err != nil {
				return nil, false, err
			}
		}
	case map[string]any:
		for _, member := range slices.Collect(maps.Keys(v)) {
			value, given, err := x.resolve(v[member])
			if err != nil {
				return nil, false, err
			}
			if v[member] = value; !given {
				delete(v, member)
			}
		}
	}
	return v, true, nil
}
