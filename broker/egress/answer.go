package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ebb/broker/provider"
)

// answer is a JSON object that makes credentials.
type answer struct {
	values map[string]string // by the name of the member
	lives  time.Duration     // 0 = it does not say
	rest   []byte            // the same object without them
}

// readAnswer reads one JSON object (RFC 8259, I-JSON RFC 7493): valid UTF-8, no name twice at any
// level, nothing after it. Of the members named some may be missing; those that are there are
// strings that a header can hold, and nothing else in it is called so, or almost so: a client
// that reads names in another way must not find what this one has not. Its errors quote nothing.
func readAnswer(body []byte, members []string) (*answer, error) {
	a := &answer{values: map[string]string{}, rest: []byte{'{'}}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, notObject(err)
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return nil, notObject(err)
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, notObject(err)
		}
		if err := a.member(name, value, members); err != nil {
			return nil, err
		}
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
		return nil, notObject(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, notObject(err)
	}
	a.rest = append(a.rest, '}')
	return a, nil
}

func notObject(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return deny(SealAmbiguous, nil)
	}
	return deny(SealNotJSON, nil)
}

// member takes in one of the object's.
func (a *answer) member(name string, value jsontext.Value, members []string) error {
	switch {
	case slices.Contains(members, name):
		return a.value(name, value)
	case calledSo(name, members):
		return deny(SealAmbiguous, nil)
	case name == "expires_in":
		seconds, err := strconv.ParseInt(string(value), 10, 32)
		if err != nil || seconds <= 0 {
			return deny(SealBadLifetime, nil)
		}
		a.lives = time.Duration(seconds) * time.Second
	}
	var inside any
	if err := json.Unmarshal(value, &inside); err != nil {
		return deny(SealNotJSON, nil)
	}
	if holdsName(inside, members) {
		return deny(SealAmbiguous, nil)
	}
	if len(a.rest) > 1 {
		a.rest = append(a.rest, ',')
	}
	quoted, err := jsontext.AppendQuote(a.rest, name)
	if err != nil {
		return deny(SealNotJSON, nil)
	}
	// In one spelling, so that what is looked for in it is found however it was escaped.
	if a.rest, err = jsontext.AppendFormat(append(quoted, ':'), value, jsontext.PreserveRawStrings(false)); err != nil {
		return deny(SealNotJSON, nil)
	}
	return nil
}

// value takes in one that is looked for.
func (a *answer) value(name string, value jsontext.Value) error {
	if value.Kind() != '"' {
		return deny(SealBadValue, nil)
	}
	text, err := jsontext.AppendUnquote(nil, []byte(value))
	if err != nil {
		return deny(SealNotJSON, nil)
	}
	s := string(text)
	odd := strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
	if odd || holds(s) || !provider.NewSecret(s).CanInject() {
		return deny(SealBadValue, nil)
	}
	a.values[name] = s
	return nil
}

// calledSo reports whether a name is one of those to who takes no notice of its case.
func calledSo(name string, members []string) bool {
	return slices.ContainsFunc(members, func(m string) bool { return strings.EqualFold(m, name) })
}

// holdsName reports whether anything in a value is called so.
func holdsName(v any, members []string) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return holdsName(e, members) })
	case map[string]any:
		for name, e := range v {
			if calledSo(name, members) || holdsName(e, members) {
				return true
			}
		}
	}
	return false
}

// with is the object with what stands for the values, and with marks in all else.
func (a *answer) with(stands map[string]string, marked func(string) string) ([]byte, error) {
	rest, is := strings.CutPrefix(marked(string(a.rest)), "{")
	out := []byte{'{'}
	for name, s := range stands {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(strconv.AppendQuote(out, name), ':')
		out = strconv.AppendQuote(out, s)
	}
	if len(out) > 1 && rest != "}" {
		out = append(out, ',')
	}
	out = append(out, rest...)
	if !is || !jsontext.Value(out).IsValid() { // a mark has taken a part of the syntax
		return nil, deny(SealAmbiguous, nil)
	}
	return out, nil
}

// secrets are the values in custody.
func (a *answer) secrets() map[string]provider.Secret {
	out := make(map[string]provider.Secret, len(a.values))
	for name, value := range a.values {
		out[name] = provider.NewSecret(value)
	}
	return out
}
