package people

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Views are the filters that a person has saved on the lists of the console, by the path of the
// list's page.
type Views map[string]ListViews

// ListViews are the saved filters of one list.
type ListViews struct {
	Fields  map[string]map[string]string `json:"fields"`            // of the filter, by the name of the view
	Default string                       `json:"default,omitempty"` // the view that opens with the page; "" = none
}

// Limits of saved views.
const (
	MaxViews    = 20 // of a person, on all lists
	maxViewName = 40 // code points

	// maxViewsSize limits the JSON of all views of a person, in bytes: the notifier and pages read the preferences of all
	// people. An escaped character has up to six bytes.
	maxViewsSize = 8 << 10
)

// Len returns the number of views.
func (vs Views) Len() (n int) {
	for _, l := range vs {
		n += len(l.Fields)
	}
	return n
}

// Check returns an error for invalid views.
func (vs Views) Check() error {
	if vs.Len() > MaxViews {
		return fmt.Errorf("a person has at most %d saved views: delete one first", MaxViews)
	}
	hidden := func(r rune) bool {
		return !unicode.IsPrint(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
	}
	for _, l := range vs {
		for name, fields := range l.Fields {
			if n := utf8.RuneCountInString(name); n == 0 || n > maxViewName || !utf8.ValidString(name) || strings.ContainsFunc(name, hidden) || strings.TrimSpace(name) != name {
				return fmt.Errorf("the name of a saved view must be 1 to %d printable characters", maxViewName)
			}
			if len(fields) == 0 {
				return errors.New("a saved view must have a filter: choose one on the list, then save it")
			}
		}
	}
	if text, err := json.Marshal(vs); err != nil || len(text) > maxViewsSize {
		return fmt.Errorf("the saved views of a person have at most %d bytes as JSON: delete one first", maxViewsSize)
	}
	return nil
}
