package web

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"ebb/broker"
)

// ReadBody reads a whole body of at most limit bytes.
func ReadBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return nil, broker.E(UnsupportedType, "Send the body without a content encoding.", nil)
	}
	if r.ContentLength > limit {
		return nil, broker.E(TooLarge, "The request body is too large.", nil)
	}
	// Room grows with what comes: a header's promise costs its sender nothing.
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

// IsType reports whether the request has exactly one Content-Type and it is
// want, parameters aside.
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

// None is the request of a call that takes no body: nothing, or an empty object.
type None struct{}

// Decode reads one JSON value strictly: application/json, size cap, exact member
// names, and an unknown member, a duplicate member, bad UTF-8 or anything after
// the value is an error (RFC 8259, I-JSON RFC 7493). Only None may be left out.
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
	se, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return broker.E(broker.Invalid, "The body is not one strict JSON object: check syntax, duplicate members and what follows it.", err)
	}
	if errors.Is(err, json.ErrUnknownName) {
		return broker.E(broker.Invalid, "The body has an unknown member at "+place(string(se.JSONPointer))+".", nil)
	}
	// The decoder's own sentence names Go types.
	return broker.E(broker.Invalid, "The body has a wrong value at "+place(string(se.JSONPointer))+".", nil)
}

// place is a JSON pointer that may be shown: it repeats names the caller chose.
func place(pointer string) string {
	const most = 64
	if pointer == "" {
		return "its top level"
	}
	if len(pointer) > most {
		pointer = pointer[:most]
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/_-.~", r) {
			return r
		}
		return '?'
	}, pointer)
}
