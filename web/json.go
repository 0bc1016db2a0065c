package web

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/broker"
)

// ReadBody reads a whole body of at most limit bytes.
func ReadBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return nil, broker.E(UnsupportedType, "Send the body without a Content-Encoding.", nil)
	}
	if r.ContentLength > limit {
		return nil, broker.E(TooLarge, "The request body is too large.", nil)
	}
	// The buffer grows with the received bytes: a large Content-Length alone
	// must not allocate memory.
	const atOnce = 4 << 10
	room := int64(atOnce)
	if r.ContentLength >= 0 {
		room = min(r.ContentLength+bytes.MinRead, atOnce)
	}
	into := bytes.NewBuffer(make([]byte, 0, room))
	_, err := into.ReadFrom(io.LimitReader(r.Body, limit+1))
	buf := into.Bytes()
	if err == nil && int64(len(buf)) < r.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, broker.E(broker.Invalid, "The request body ended early; send it again.", err)
	}
	if int64(len(buf)) > limit {
		return nil, broker.E(TooLarge, "The request body is too large.", nil)
	}
	return buf, nil
}

// IsType reports whether the request has exactly one Content-Type and it is want, parameters aside.
func IsType(h http.Header, want string) bool {
	values := h["Content-Type"]
	if len(values) != 1 {
		return false
	}
	if values[0] == want {
		return true
	}
	got, _, err := mime.ParseMediaType(values[0])
	return err == nil && got == want
}

// None is the request of a call without a body. It accepts an empty body or an empty object.
type None struct{}

// Decode parses one JSON value strictly (RFC 8259, I-JSON RFC 7493). It requires application/json,
// limits the size, and rejects unknown members, duplicate members, invalid UTF-8 and data after the
// value. Only None accepts an empty body.
func Decode[T any](r *http.Request, limit int64) (T, error) {
	var v T
	body, err := ReadBody(r, limit)
	if err != nil {
		return v, err
	}
	if _, optional := any(v).(None); optional && len(body) == 0 {
		return v, nil
	}
	if !IsType(r.Header, "application/json") {
		return v, broker.E(UnsupportedType, "Send application/json.", nil)
	}
	if err := decode(body, &v); err != nil {
		return *new(T), err
	}
	return v, nil
}

func decode(body []byte, into any) error {
	if bytes.Equal(bytes.TrimSpace(body), []byte("null")) {
		return broker.E(broker.Invalid, "The body must be a JSON object, not null.", nil)
	}
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	// The decoder's own messages repeat the input and name Go types, so neither
	// the response nor the log contains them.
	se, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return broker.E(broker.Invalid, "The body is not one strict JSON object: check the syntax, duplicate members and data after the object.", nil)
	}
	at, members := place(reflect.TypeOf(into).Elem(), se.JSONPointer)
	if errors.Is(err, json.ErrUnknownName) {
		return broker.E(broker.Invalid, "The body has an unknown member at "+at+". Known ones: "+cmp.Or(strings.Join(members, ", "), "none")+".", nil)
	}
	return WrongValue(at)
}

// WrongValue refuses a member of a body whose value has the right JSON type and is not one that the API accepts. at is
// the JSON pointer of the member (RFC 6901). The value itself is not repeated: it may be a secret in the wrong place.
func WrongValue(at string) error {
	return broker.E(broker.Invalid, "The body has a wrong value at "+at+".", nil)
}

// place returns the part of a JSON pointer that type t has names for, and the
// members known at that place. It omits names chosen by the sender, such as map
// keys, because they may be secrets in the wrong place.
func place(t reflect.Type, pointer jsontext.Pointer) (at string, members []string) {
	for token := range pointer.Tokens() {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Struct:
			next, known := memberOf(t, token)
			if !known {
				return cmp.Or(at, "its top level"), membersOf(t)
			}
			t = next
		case reflect.Slice, reflect.Array: // the token is an index
			t = t.Elem()
		default:
			return cmp.Or(at, "its top level"), nil
		}
		at += "/" + token
	}
	return cmp.Or(at, "its top level"), nil
}

func memberOf(t reflect.Type, name string) (reflect.Type, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous && memberName(f) == name {
			return f.Type, true
		}
	}
	return nil, false
}

func membersOf(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if n := memberName(f); f.IsExported() && !f.Anonymous && n != "-" {
			names = append(names, n)
		}
	}
	return names
}

func memberName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return cmp.Or(name, f.Name)
}
