package oidc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/attest/jose"
)

// path is the list of member names that lead to a claim, outermost first.
type path []string

// shape is a pattern for a subject. Each segment between slashes is either literal
// text or a selector name in angle brackets that stands for any non-empty segment.
// The empty shape accepts every subject.
type shape string

const maxText = 2048

var (
	errAbsent   = errors.New("the claim is absent")
	errNoText   = errors.New("the claim is not a string, a boolean or an integer")
	errShape    = errors.New("the subject does not have the form of this platform")
	errNotPlain = errors.New("the claim has control characters or more than 2048 bytes")
)

// parsePath parses "a.b" or the JSON pointer "/a.x/b" (RFC 6901).
func parsePath(s string) (path, error) {
	var p path
	if rest, pointer := strings.CutPrefix(s, "/"); pointer {
		unescape := strings.NewReplacer("~1", "/", "~0", "~")
		for name := range strings.SplitSeq(rest, "/") {
			p = append(p, unescape.Replace(name))
		}
	} else {
		p = strings.Split(s, ".")
	}
	for _, name := range p {
		if name == "" {
			return nil, fmt.Errorf("the claim path %q has an empty name; write a.b, or /a.x/b when a name contains a dot", s)
		}
	}
	return p, nil
}

// text returns the claim at a path as text for comparison. Each accepted value has
// exactly one text. The error is errAbsent, errNoText or errNotPlain.
func (p path) text(c *jose.Claims) (string, error) {
	raw, found := c.Raw(p[0])
	v := jsontext.Value(raw)
	for _, name := range p[1:] {
		if !found || v.Kind() != jsontext.KindBeginObject {
			return "", errAbsent
		}
		var object map[string]jsontext.Value
		if err := json.Unmarshal(v, &object); err != nil {
			return "", errNoText
		}
		v, found = object[name]
	}
	if !found {
		return "", errAbsent
	}
	switch v.Kind() {
	case jsontext.KindString:
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return "", errNoText
		}
		if len(s) > maxText || !jose.Plain(s) {
			return "", errNotPlain
		}
		return s, nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return string(v), nil
	case jsontext.KindNumber:
		// 1e3 and 1000.0 are other spellings of 1000; they are rejected.
		if len(v) > 20 || strings.ContainsAny(string(v), ".eE") || string(v) == "-0" {
			return "", errNoText
		}
		return string(v), nil
	}
	return "", errNoText
}

// names returns the names in angle brackets.
func (s shape) names() []string {
	var names []string
	for segment := range strings.SplitSeq(string(s), "/") {
		if name, found := strings.CutPrefix(segment, "<"); found {
			names = append(names, strings.TrimSuffix(name, ">"))
		}
	}
	return names
}

// read adds to out the segment of the subject for each name of the shape. It returns
// errShape when the subject does not match; out is then incomplete.
func (s shape) read(subject string, out map[string]string) error {
	want, got := strings.Split(string(s), "/"), strings.Split(subject, "/")
	if len(want) != len(got) {
		return errShape
	}
	for i, segment := range want {
		name, named := strings.CutPrefix(segment, "<")
		switch {
		case !named && got[i] == segment:
		case named && got[i] != "":
			out[strings.TrimSuffix(name, ">")] = got[i]
		default:
			return errShape
		}
	}
	return nil
}
