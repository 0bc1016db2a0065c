package scopes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// DetailType is the one RFC 9396 authorization details type that ebb understands.
const DetailType = "ebb_credential"

const (
	maxDetails     = 16
	maxDetailBytes = 16 << 10
)

// ErrDetails is wrapped for refused authorization_details: the response is
// invalid_authorization_details (RFC 9396 section 5). The caller is at fault.
var ErrDetails = errors.New("authorization_details refused")

// Detail is one RFC 9396 section 2 object of type ebb_credential:
//
//	{"type":"ebb_credential","provider":"orders","identifier":"eu/42","actions":["read"],"locations":["https://orders.example"]}
//
// Identifier is the resource path of the scope, patterns included. Location is optional, "" when absent; on the wire it
// is an array of exactly one RFC 8707 resource URI.
type Detail struct {
	Provider   string
	Identifier string
	Actions    []string
	Location   string
}

// Set returns the requested scopes of the detail: one for each action. The error wraps
// [ErrDetails].
func (d Detail) Set() (Set, error) { return SetOf([]Detail{d}) }

// SetOf returns the union of the details' scopes. The error wraps [ErrDetails].
func SetOf(details []Detail) (Set, error) {
	var members []Scope
	for i, d := range details {
		for j, action := range d.Actions {
			s, err := New(d.Provider, d.Identifier, action)
			if err != nil {
				return Set{}, fmt.Errorf("%w: [%d]: provider, identifier and actions[%d]: %w", ErrDetails, i, j, err)
			}
			members = append(members, s)
		}
	}
	set, err := NewSet(members...)
	if err != nil {
		return Set{}, fmt.Errorf("%w: %w", ErrDetails, err)
	}
	return set, nil
}

// DetailsOf is the canonical inverse of [SetOf]: one detail for each provider and resource, sorted,
// without locations. It may return more objects than [ParseDetails] accepts in one request.
func DetailsOf(set Set) []Detail {
	type target struct{ provider, resource string }
	index := map[target]int{}
	var details []Detail
	for _, m := range set.members {
		key := target{m.Provider(), m.Resource()}
		i, seen := index[key]
		if !seen {
			i = len(details)
			index[key] = i
			details = append(details, Detail{Provider: key.provider, Identifier: key.resource})
		}
		details[i].Actions = append(details[i].Actions, m.Action())
	}
	slices.SortFunc(details, func(a, b Detail) int {
		if c := strings.Compare(a.Provider, b.Provider); c != 0 {
			return c
		}
		return strings.Compare(a.Identifier, b.Identifier)
	})
	return details
}

// wireDetail fixes the member order, so that equal details are equal bytes.
type wireDetail struct {
	Type       string   `json:"type"`
	Provider   string   `json:"provider"`
	Identifier string   `json:"identifier"`
	Actions    []string `json:"actions"`
	Locations  []string `json:"locations,omitempty"`
}

// MarshalJSON writes the RFC 9396 object. It does not validate the detail; [ParseDetails] does.
func (d Detail) MarshalJSON() ([]byte, error) {
	w := wireDetail{Type: DetailType, Provider: d.Provider, Identifier: d.Identifier, Actions: d.Actions}
	if d.Location != "" {
		w.Locations = []string{d.Location}
	}
	return json.Marshal(w)
}

// ParseDetails reads an authorization_details value: a JSON array of 1 to 16 objects, at most 16 KiB. An unknown type, an
// unknown, duplicate or differently cased member, a wrong type, a missing member or a bad value is refused. Every error
// wraps [ErrDetails] and names the place; it repeats no more of the value than a *[ParseError] does. Together the details hold at most [MaxScopes] scopes.
func ParseDetails(b []byte) ([]Detail, error) {
	if len(b) > maxDetailBytes {
		return nil, fmt.Errorf("%w: at most %d bytes", ErrDetails, maxDetailBytes)
	}
	// Version 2 of encoding/json refuses duplicate members, bad UTF-8 and trailing text. Its error is not wrapped,
	// because it repeats names of members.
	var objects []map[string]any
	if err := json.Unmarshal(b, &objects); err != nil || len(objects) == 0 || len(objects) > maxDetails {
		return nil, fmt.Errorf("%w: a JSON array of 1 to %d objects without duplicate members is required", ErrDetails, maxDetails)
	}
	details := make([]Detail, len(objects))
	for i, object := range objects {
		var err error
		if details[i], err = parseDetail(object); err != nil {
			return nil, fmt.Errorf("%w: [%d]: %w", ErrDetails, i, err)
		}
	}
	if _, err := SetOf(details); err != nil {
		return nil, err
	}
	return details, nil
}

func parseDetail(object map[string]any) (d Detail, err error) {
	for name := range object {
		if !slices.Contains([]string{"type", "provider", "identifier", "actions", "locations"}, name) {
			return d, errors.New("unknown member; allowed are type, provider, identifier, actions, locations")
		}
	}
	if object["type"] != DetailType {
		return d, fmt.Errorf("type must be %q", DetailType)
	}
	var isText, isPath bool
	d.Provider, isText = object["provider"].(string)
	d.Identifier, isPath = object["identifier"].(string)
	if !isText || !isPath {
		return d, errors.New("provider and identifier must be strings")
	}
	if d.Actions = texts(object["actions"], MaxScopes); d.Actions == nil {
		return d, fmt.Errorf("actions must be an array of 1 to %d strings", MaxScopes)
	}
	if locations, has := object["locations"]; has {
		list := texts(locations, 1)
		if list == nil {
			return d, errors.New("locations must be an array of one string")
		}
		if d.Location, err = ParseResource(list[0]); err != nil {
			return d, fmt.Errorf("locations: %w", err)
		}
	}
	return d, nil
}

// texts returns an array of 1 to most strings, or nil if v is anything else.
func texts(v any, most int) []string {
	array, _ := v.([]any)
	if len(array) == 0 || len(array) > most {
		return nil
	}
	list := make([]string, len(array))
	for i, member := range array {
		text, is := member.(string)
		if !is {
			return nil
		}
		list[i] = text
	}
	return list
}
