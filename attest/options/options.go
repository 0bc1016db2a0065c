package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads raw, a JSON object, into a pointer to a struct with json tags. Names are
// compared byte for byte, with letter case. An unknown name, a duplicate name and a name
// without a value are errors: a restriction that is misspelt or left empty must not be
// ignored. A time.Duration is a string such as 30s or 1h and must be positive, because 0
// would silently mean the default. A *time.Duration distinguishes 0 from an absent value and
// may be 0.
//
// An error names the key and the problem, and contains no value from raw. After an error,
// the contents of into are undefined.
func Decode(raw []byte, into any) error {
	if err := json.Unmarshal(raw, into, json.RejectUnknownMembers(true), json.WithUnmarshalers(durations)); err != nil {
		return explain(err)
	}
	return empty(raw)
}

// empty returns an error for the first null in raw.
func empty(raw []byte) error {
	for d := jsontext.NewDecoder(bytes.NewReader(raw)); ; {
		t, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return explain(err)
		case t.Kind() == jsontext.KindNull:
			return at(d.StackPointer(), errEmpty)
		}
	}
}

var (
	errEmpty    = errors.New("it has no value; give it one or remove the line")
	errDuration = errors.New("this is not a length of time; write it like 30s or 1h, and leave it out for the default")
)

var durations = json.JoinUnmarshalers(
	json.UnmarshalFunc(func(b []byte, d *time.Duration) error { return readDuration(b, d, 1) }),
	json.UnmarshalFunc(func(b []byte, d **time.Duration) error { *d = new(time.Duration); return readDuration(b, *d, 0) }),
)

func readDuration(b []byte, d *time.Duration, least time.Duration) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return errDuration
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < least {
		return errDuration
	}
	*d = v
	return nil
}

var (
	errUnknown = errors.New("there is no such key")
	errTwice   = errors.New("it is there twice")
)

// kinds has the terms of YAML for the kinds of JSON values.
var kinds = map[jsontext.Kind]string{
	jsontext.KindFalse: "true or false", jsontext.KindTrue: "true or false", jsontext.KindString: "a text", jsontext.KindNumber: "a number",
	jsontext.KindBeginObject: "a mapping", jsontext.KindBeginArray: "a list", jsontext.KindNull: "nothing",
}

// explain rewrites a decoding error without the names of Go types and without the value,
// because the value may be a secret in the wrong field.
func explain(err error) error {
	if s, is := errors.AsType[*json.SemanticError](err); is {
		switch kind, known := kinds[s.JSONKind]; {
		case errors.Is(err, json.ErrUnknownName):
			return at(s.JSONPointer, errUnknown)
		case errors.Is(err, errDuration):
			return at(s.JSONPointer, errDuration)
		case s.Err != nil: // the error of a type with its own UnmarshalJSON
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

// at prefixes err with the path of the key, its parts joined by dots as in the errors for
// the rest of the file.
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
