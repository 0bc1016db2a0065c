package options

import (
	"bytes"
	"errors"
	"io"
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
