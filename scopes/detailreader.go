package scopes

import (
	"encoding/json"
	"errors"
	"fmt"
)

// detailReader walks the tokens of an authorization_details value. It never descends further than array, object, array:
// anything deeper is a wrong type, so depth needs no other cap. encoding/json into a struct would let duplicate and
// differently cased members through.
type detailReader struct {
	dec *json.Decoder
}

func (r *detailReader) array() ([]Detail, error) {
	if err := r.open('[', "a JSON array of objects is required"); err != nil {
		return nil, err
	}
	var details []Detail
	for r.dec.More() {
		if len(details) == maxDetails {
			return nil, fmt.Errorf("at most %d objects", maxDetails)
		}
		d, err := r.object()
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", len(details), err)
		}
		details = append(details, d)
	}
	if len(details) == 0 {
		return nil, errors.New("the array must hold at least one object")
	}
	return details, nil
}

func (r *detailReader) object() (Detail, error) {
	if err := r.open('{', "an object is required"); err != nil {
		return Detail{}, err
	}
	var d Detail
	var kind string
	seen := map[string]bool{}
	for r.dec.More() {
		name, err := r.text()
		if err != nil {
			return Detail{}, err
		}
		if seen[name] {
			return Detail{}, errors.New("duplicate member")
		}
		seen[name] = true
		if err := r.member(name, &kind, &d); err != nil {
			return Detail{}, err
		}
	}
	if _, err := r.dec.Token(); err != nil {
		return Detail{}, errors.New("unterminated object")
	}
	for _, name := range []string{"type", "provider", "identifier", "actions"} {
		if !seen[name] {
			return Detail{}, fmt.Errorf("missing member %q", name)
		}
	}
	if kind != DetailType {
		return Detail{}, fmt.Errorf("unknown type; %q is the only one", DetailType)
	}
	return d, nil
}

func (r *detailReader) member(name string, kind *string, d *Detail) (err error) {
	switch name {
	case "type":
		*kind, err = r.text()
	case "provider":
		d.Provider, err = r.text()
	case "identifier":
		d.Identifier, err = r.text()
	case "actions":
		d.Actions, err = r.texts(MaxScopes)
	case "locations":
		var locations []string
		if locations, err = r.texts(1); err == nil {
			d.Location, err = ParseResource(locations[0])
		}
	default:
		return errors.New("unknown member; allowed are type, provider, identifier, actions, locations")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// texts reads an array of 1 to most strings.
func (r *detailReader) texts(most int) ([]string, error) {
	if err := r.open('[', "an array of strings is required"); err != nil {
		return nil, err
	}
	var list []string
	for r.dec.More() {
		if len(list) == most {
			return nil, fmt.Errorf("at most %d", most)
		}
		s, err := r.text()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	if _, err := r.dec.Token(); err != nil {
		return nil, errors.New("unterminated array")
	}
	if len(list) == 0 {
		return nil, errors.New("must not be empty")
	}
	return list, nil
}

func (r *detailReader) text() (string, error) {
	token, err := r.dec.Token()
	if s, ok := token.(string); ok && err == nil {
		return s, nil
	}
	return "", errors.New("a string is required")
}

func (r *detailReader) open(want json.Delim, otherwise string) error {
	if token, err := r.dec.Token(); err != nil || token != want {
		return errors.New(otherwise)
	}
	return nil
}
