package people

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// View is a filter of a list that a person has saved.
type View struct {
	List    string            `json:"list"` // path of the list's page
	Name    string            `json:"name"`
	Fields  map[string]string `json:"fields"` // of the filter
	Default bool              `json:"default,omitempty"`
}

// Limits of saved views.
const (
	MaxViews      = 20   // of a person, on all lists
	maxViewName   = 40   // code points
	maxViewFields = 1000 // bytes of the names and values of one view: the notifier reads the preferences of all people
)

// Views are the saved views of a person, in the order of their names per list.
type Views []View

// Check returns an error for invalid views.
func (vs Views) Check() error {
	if len(vs) > MaxViews {
		return fmt.Errorf("a person has at most %d saved views: delete one first", MaxViews)
	}
	for i, v := range vs {
		if err := v.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(vs[:i], func(o View) bool { return o.List == v.List && (o.Name == v.Name || o.Default && v.Default) }) {
			return errors.New("the saved views of a list have different names, and one of them may be the default")
		}
	}
	return nil
}

func (v View) check() error {
	hidden := func(r rune) bool {
		return !unicode.IsPrint(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
	}
	if n := utf8.RuneCountInString(v.Name); n == 0 || n > maxViewName || !utf8.ValidString(v.Name) || strings.ContainsFunc(v.Name, hidden) || strings.TrimSpace(v.Name) != v.Name {
		return fmt.Errorf("the name of a saved view must be 1 to %d printable characters", maxViewName)
	}
	size := 0
	for name, value := range v.Fields {
		size += len(name) + len(value)
	}
	if v.List == "" || len(v.Fields) == 0 || size > maxViewFields {
		return fmt.Errorf("a saved view must have 1 to %d bytes of filter", maxViewFields)
	}
	return nil
}

// Of returns the views of one list.
func (vs Views) Of(list string) Views {
	return slices.DeleteFunc(slices.Clone(vs), func(v View) bool { return v.List != list })
}

// Find returns the index of a view, or -1.
func (vs Views) Find(list, name string) int {
	return slices.IndexFunc(vs, func(v View) bool { return v.List == list && v.Name == name })
}

// Save returns the views with v, which replaces a view of the same list and name and stays the
// default if that one was.
func (vs Views) Save(v View) Views {
	out := slices.Clone(vs)
	if i := out.Find(v.List, v.Name); i >= 0 {
		v.Default, out[i] = out[i].Default, v
		return out
	}
	out = append(out, v)
	slices.SortStableFunc(out, func(a, b View) int { return strings.Compare(a.List+"\x00"+a.Name, b.List+"\x00"+b.Name) })
	return out
}

// SetDefault returns the views with name as the default of the list; "" leaves it without one.
func (vs Views) SetDefault(list, name string) Views {
	out := slices.Clone(vs)
	for i := range out {
		if out[i].List == list {
			out[i].Default = out[i].Name == name
		}
	}
	return out
}
