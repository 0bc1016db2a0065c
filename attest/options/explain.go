package options

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var (
	errUnknown = errors.New("there is no such key")
	errTwice   = errors.New("it is there twice")
)

// kinds are what YAML's readers call the values of JSON.
var kinds = map[jsontext.Kind]string{
	jsontext.KindFalse: "true or false", jsontext.KindTrue: "true or false", jsontext.KindString: "a text", jsontext.KindNumber: "a number",
	jsontext.KindBeginObject: "a mapping", jsontext.KindBeginArray: "a list", jsontext.KindNull: "nothing",
}

// explain says it without the names of Go's types, and without what was written: that may
// be a secret in the wrong place.
func explain(err error) error {
	if s, is := errors.AsType[*json.SemanticError](err); is {
		switch kind, known := kinds[s.JSONKind]; {
		case errors.Is(err, json.ErrUnknownName):
			return at(s.JSONPointer, errUnknown)
		case errors.Is(err, errDuration):
			return at(s.JSONPointer, errDuration)
		case s.Err != nil: // of a type that reads itself
			return at(s.JSONPointer, s.Err)
		case known:
			return at(s.JSONPointer, fmt.Errorf("%s does not fit here", kind))
		}
	}
	if s, is := errors.AsType[*jsontext.SyntacticError](err); is && errors.Is(err, jsontext.ErrDuplicateName) {
		return at(s.JSONPointer, errTwice)
	}
	return errors.New("it cannot be read as a mapping of keys to values")
}

// at names the place as the rest of the file is named: by keys, dots between.
func at(p jsontext.Pointer, err error) error {
	var keys []string
	for k := range p.Tokens() {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(keys, "."), err)
}
