package oidc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ebb/attest/jose"
)

// path is the names that lead to a claim, outermost first.
type path []string

// shape is how a subject is made of segments between slashes: the words that are
// there, and names in angle brackets for what becomes a selector. "" is any.
type shape string

const maxText = 2048

var (
	errAbsent   = errors.New("the claim is absent")
	errNoText   = errors.New("the claim is not a text, a boolean or an integer")
	errShape    = errors.New("the subject is not of the platform's form")
	errNotPlain = errors.New("the claim has control characters or is too long")
)

// parsePath reads "a.b" or the JSON pointer "/a.x/b".
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
			return nil, fmt.Errorf("the claim path %q has an empty name; write a.b, or /a.x/b when a name holds a dot", s)
		}
	}
	return p, nil
}

// text is the claim at a path as the one text that it is compared by.
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
		// 1e3 and 1000.0 are the number 1000 too: only one spelling is compared.
		if len(v) > 20 || strings.ContainsAny(string(v), ".eE") || string(v) == "-0" {
			return "", errNoText
		}
		return string(v), nil
	}
	return "", errNoText
}

// names are those in angle brackets.
func (s shape) names() []string {
	var names []string
	for segment := range strings.SplitSeq(string(s), "/") {
		if name, found := strings.CutPrefix(segment, "<"); found {
			names = append(names, strings.TrimSuffix(name, ">"))
		}
	}
	return names
}

// read adds what the names of the shape stand for in the subject to out.
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
