package graphql

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// Read reads and parses the body of a request. Afterwards r.Body yields the same bytes again, with
// their length as r.ContentLength. An error is a *content.Error, or the error of reading the body;
// the request is then not to be sent.
func Read(r *http.Request) (*Document, error) {
	if err := checkHead(r); err != nil {
		return nil, err
	}
	body, err := content.TakeBody(r)
	if err != nil {
		return nil, err
	}
	d, err := parseBody(body)
	if err == nil {
		sum := sha256.Sum256(body)
		d.body = hex.EncodeToString(sum[:])
	}
	return d, err
}

// checkHead refuses requests whose head could change what the body means.
func checkHead(r *http.Request) error {
	switch {
	case r.Method != http.MethodPost:
		return content.Refuse("a GraphQL request must have the method POST")
	case r.URL.RawQuery != "" || r.URL.ForceQuery:
		return content.Refuse("the URL of a GraphQL request must have no query: some servers read the operation from it")
	case len(r.Header["Content-Encoding"]) > 0:
		return content.Refuse("a GraphQL request must have no Content-Encoding")
	case len(r.Header["X-Http-Method-Override"]) > 0:
		return content.Refuse("a GraphQL request must have no X-HTTP-Method-Override")
	case !content.HasType(r, "application/json"):
		return content.Refuse("the Content-Type of a GraphQL request must be application/json, in UTF-8")
	}
	return nil
}

// parseBody parses the JSON of a body: an object with query, and optionally operationName,
// variables and extensions (GraphQL over HTTP, section 5.1). Names must be spelled exactly so,
// without escapes.
func parseBody(body []byte) (*Document, error) {
	b := jsonBody{d: jsontext.NewDecoder(bytes.NewBuffer(body))}
	if b.d.PeekKind() == '[' {
		return nil, content.Refuse("it is a batch of operations: send one operation a request")
	}
	if t, err := b.d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, notJSON(err)
	}
	for b.d.PeekKind() == '"' {
		name, err := b.d.ReadValue()
		if err != nil {
			return nil, notJSON(err)
		}
		if err := b.member(string(name)); err != nil {
			return nil, err
		}
	}
	if t, err := b.d.ReadToken(); err != nil || t.Kind() != '}' {
		return nil, notJSON(err)
	}
	if _, err := b.d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, content.Refuse("data follows its JSON object")
	}
	if b.query == "" {
		return nil, content.Refuse("it has no query: persisted queries are not supported")
	}
	return parse(b.query, b.operation, b.variables)
}

// jsonBody has the members of a body that have been read.
type jsonBody struct {
	d         *jsontext.Decoder
	query     string
	operation string // "" = none is named
	variables map[string]any
	values    int // JSON values read so far
}

// member reads the value of a member whose name is given as in the body.
func (b *jsonBody) member(name string) error {
	kind := b.d.PeekKind()
	switch name {
	case `"query"`, `"operationName"`:
		if kind == 'n' && name == `"operationName"` {
			return b.d.SkipValue()
		}
		t, err := b.d.ReadToken()
		if err != nil || t.Kind() != '"' {
			return cause("its query or operationName is not a string", err)
		}
		if name == `"query"` {
			b.query = t.String()
			return nil
		}
		if b.operation = t.String(); b.operation == "" {
			return content.Refuse("its operationName is empty: leave it out, or set it to null")
		}
		return nil
	case `"variables"`, `"extensions"`:
		v, err := b.value(0)
		if err != nil {
			return err
		}
		members, is := v.(map[string]any)
		if !is && v != nil {
			return content.Refuse("its variables or extensions are not an object")
		}
		if name == `"variables"` {
			b.variables = members
			return nil
		}
		for m := range members {
			if fold(m) == "persistedquery" {
				return content.Refuse("persisted queries are not supported: send the query itself")
			}
		}
		return nil
	}
	return content.Refuse("a GraphQL request has no members but query, operationName, variables and extensions, spelled so and each at most once")
}

// value reads a JSON value at a depth: nil, bool, string, number, []any or map[string]any.
func (b *jsonBody) value(depth int) (any, error) {
	if b.values++; b.values > maxTokens || depth > maxDepth {
		return nil, errTooLarge
	}
	t, err := b.d.ReadToken()
	if err != nil {
		return nil, notJSON(err)
	}
	switch t.Kind() {
	case 'n':
		return nil, nil //nolint:nilnil // JSON's null
	case 't', 'f':
		return t.Bool(), nil
	case '"':
		return t.String(), nil
	case '0':
		return number(t.String()), nil
	case '[':
		list := []any{}
		for b.d.PeekKind() != ']' {
			v, err := b.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := b.d.ReadToken()
		return list, err
	}
	return b.object(depth)
}

// object reads the rest of a JSON object. Names that differ only in case are refused, because some
// servers take one for the other.
func (b *jsonBody) object(depth int) (any, error) {
	object := map[string]any{}
	folded := map[string]bool{}
	for b.d.PeekKind() == '"' {
		t, err := b.d.ReadToken()
		if err != nil {
			return nil, notJSON(err)
		}
		name := t.String()
		if folded[fold(name)] {
			return nil, content.Refuse("two names of an object in it differ only in case")
		}
		folded[fold(name)] = true
		if object[name], err = b.value(depth + 1); err != nil {
			return nil, err
		}
	}
	if t, err := b.d.ReadToken(); err != nil || t.Kind() != '}' {
		return nil, notJSON(err)
	}
	return object, nil
}

// fold returns the same text for names that differ only in case, also for the long s and the sign
// for Kelvin.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// notJSON is the error for text that is not one JSON object. The decoder's own error quotes the
// text and is left out.
func notJSON(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return content.Refuse("an object in it has two members of one name")
	}
	return content.Refuse("it is not one JSON object in UTF-8 (RFC 7493)")
}

// cause is notJSON for an error of the decoder, and else a refusal for a reason.
func cause(why string, err error) error {
	if err != nil {
		return notJSON(err)
	}
	return content.Refuse(why)
}
