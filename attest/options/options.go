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

// Decode reads raw, a JSON object, into a pointer to a struct with json tags. Names count
// by letter and case. One that is unknown, there twice or without a value is an error: a
// restriction that is misspelt or was left empty must not be ignored. A time.Duration is
// a text such as 30s or 1h, and positive: 0 would silently be the default. A
// *time.Duration, which tells 0 from nothing, may be 0.
//
// An error says where and what, and nothing of the values. into is of no use then.
func Decode(raw []byte, into any) error {
	if err := json.Unmarshal(raw, into, json.RejectUnknownMembers(true), json.WithUnmarshalers(durations)); err != nil {
		return explain(err)
	}
	return empty(raw)
}

// empty refuses the first null.
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
