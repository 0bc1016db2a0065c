package githubtest

import (
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

// example is an object with all that a schema requires, of the examples and types
// that it names.
func example(schema string) map[string]any {
	return value(description.Components.Schemas[schema].Value, 0).(map[string]any)
}

func value(s *openapi3.Schema, depth int) any {
	switch {
	case s.Nullable && depth > 0:
		return nil
	case s.Example != nil:
		return s.Example
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.OneOf) > 0:
		return value(s.OneOf[0].Value, depth+1)
	case len(s.AnyOf) > 0:
		return value(s.AnyOf[0].Value, depth+1)
	case len(s.AllOf) > 0:
		return value(s.AllOf[0].Value, depth+1)
	}
	return ofType(s, depth)
}

func ofType(s *openapi3.Schema, depth int) any {
	switch {
	case s.Type.Is("array"):
		return []any{}
	case s.Type.Is("boolean"):
		return false
	case s.Type.Is("integer"), s.Type.Is("number"):
		return 1
	case s.Type.Is("string"):
		return map[string]string{"date-time": "2026-01-01T00:00:00Z", "uri": "https://api.github.com/x", "email": "a@example.com"}[s.Format]
	}
	out := map[string]any{}
	for name, p := range s.Properties {
		if slices.Contains(s.Required, name) {
			out[name] = value(p.Value, depth+1)
		}
	}
	return out
}
