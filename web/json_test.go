package web_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

type sample struct {
	Name string            `json:"name"`
	N    int               `json:"n"`
	In   map[string]string `json:"in"`
	Sub  struct {
		X int `json:"x"`
	} `json:"sub"`
}

func decodeSample(body, contentType string) (sample, error) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return web.Decode[sample](r, 1<<10)
}

func TestDecode(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"in":`, 100) + "1" + strings.Repeat("}", 100)
	for name, c := range map[string]struct {
		body, contentType string
		want              broker.Kind
	}{
		"good":                 {`{"name":"a","n":1,"in":{"k":"v"},"sub":{"x":1}}`, "application/json", ""},
		"charset":              {`{"name":"a"}`, "application/json; charset=utf-8", ""},
		"empty object":         {`{}`, "application/json", ""},
		"no body":              {``, "application/json", broker.Invalid},
		"no type":              {`{}`, "", web.UnsupportedType},
		"form":                 {`name=a`, "application/x-www-form-urlencoded", web.UnsupportedType},
		"text":                 {`{}`, "text/plain", web.UnsupportedType},
		"null":                 {` null `, "application/json", broker.Invalid},
		"array":                {`[]`, "application/json", broker.Invalid},
		"unknown member":       {`{"nam":"a"}`, "application/json", broker.Invalid},
		"other case":           {`{"Name":"a"}`, "application/json", broker.Invalid},
		"nested unknown":       {`{"sub":{"y":1}}`, "application/json", broker.Invalid},
		"duplicate":            {`{"n":1,"n":2}`, "application/json", broker.Invalid},
		"duplicate, escaped":   {`{"n":1,"\u006e":2}`, "application/json", broker.Invalid},
		"duplicate in map":     {`{"in":{"a":"1","a":"2"}}`, "application/json", broker.Invalid},
		"wrong type":           {`{"n":"1"}`, "application/json", broker.Invalid},
		"overflow":             {`{"n":1e400}`, "application/json", broker.Invalid},
		"trailing value":       {`{} {}`, "application/json", broker.Invalid},
		"trailing text":        {`{}x`, "application/json", broker.Invalid},
		"bad UTF-8":            {"{\"name\":\"\xff\"}", "application/json", broker.Invalid},
		"lone surrogate":       {`{"name":"\ud800"}`, "application/json", broker.Invalid},
		"byte order mark":      {"\ufeff{}", "application/json", broker.Invalid},
		"comment":              {`{/**/}`, "application/json", broker.Invalid},
		"trailing comma":       {`{"n":1,}`, "application/json", broker.Invalid},
		"deep":                 {deep, "application/json", broker.Invalid},
		"too large":            {`{"name":"` + strings.Repeat("a", 2<<10) + `"}`, "application/json", web.TooLarge},
		"two types in a value": {`{}`, "application/json, text/plain", web.UnsupportedType},
	} {
		_, err := decodeSample(c.body, c.contentType)
		got := broker.Kind("")
		if err != nil {
			got = broker.AsError(err).Kind
		}
		if got != c.want {
			t.Errorf("%s: got kind %q (%v), want %q", name, got, err, c.want)
		}
	}
}

func TestDecodeTwoContentTypes(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	r.Header["Content-Type"] = []string{"application/json", "application/json"}
	if _, err := web.Decode[sample](r, 1<<10); broker.AsError(err).Kind != web.UnsupportedType {
		t.Errorf("two Content-Type headers: got %v", err)
	}
	r = httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	if _, err := web.Decode[sample](r, 1<<10); broker.AsError(err).Kind != web.UnsupportedType {
		t.Errorf("a content encoding: got %v", err)
	}
}

func TestDecodeUnknownLength(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat(" ", 2<<10)+"{}"))
	r.ContentLength = -1
	r.Header.Set("Content-Type", "application/json")
	if _, err := web.Decode[sample](r, 1<<10); broker.AsError(err).Kind != web.TooLarge {
		t.Errorf("an unbounded body: got %v", err)
	}
}

func TestDecodeNone(t *testing.T) {
	t.Parallel()
	for body, ok := range map[string]bool{"": true, "{}": true, `{"a":1}`: false, "[]": false} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		_, err := web.Decode[web.None](r, 1<<10)
		if (err == nil) != ok {
			t.Errorf("%q: got %v, want ok %v", body, err, ok)
		}
	}
}

// The public sentence never contains Go names or sent values.
//
//ebb:invariant I8 A decoding error of the API repeats no member name or value that the client sent
//ebb:invariant I8 The log of a request that cannot be decoded repeats no member name or value that the client sent
func TestDecodeErrorsArePublic(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"n":"hunter2"}`, `{"hunter2\"\\<":1}`, `{"sub":{"x":"hunter2"}}`, `{"n":hunter2}`, `{"sub":[1]}`, `{"in":{"hunter2":1}}`, `{"in":{"hunter2":"1","hunter2":"2"}}`, `{"sub":{"hunter2":1}}`} {
		_, err := decodeSample(body, "application/json")
		e, ok := errors.AsType[*broker.Error](err)
		if !ok {
			t.Fatalf("%s: got %v", body, err)
		}
		for _, leak := range []string{"Go ", "struct", "int", "web_test", "sample", `"`, "<", "jsontext"} {
			if strings.Contains(e.Public, leak) {
				t.Errorf("%s: public sentence %q holds %q", body, e.Public, leak)
			}
		}
		if strings.Contains(e.Public, "hunter2") || e.Cause != nil {
			t.Errorf("%s: public sentence %q or cause %v repeats what was sent", body, e.Public, e.Cause)
		}
	}
}

// The sentence names the place of the error, in names of the server, and the
// known members.
func TestDecodeErrorsSayWhere(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"x":1}`:           "The body has an unknown member at its top level. Known ones: name, n, in, sub.",
		`{"sub":{"y":1}}`:   "The body has an unknown member at /sub. Known ones: x.",
		`{"sub":{"x":"1"}}`: "The body has a wrong value at /sub/x.",
		`{"in":{"k":1}}`:    "The body has a wrong value at /in.",
	} {
		if _, err := decodeSample(body, "application/json"); broker.AsError(err).Public != want {
			t.Errorf("%s: got %q, want %q", body, broker.AsError(err).Public, want)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"x":1}`))
	r.Header.Set("Content-Type", "application/json")
	if _, err := web.Decode[web.None](r, 1<<10); !strings.HasSuffix(broker.AsError(err).Public, "Known ones: none.") {
		t.Error(err)
	}
}

// An accepted body is accepted again after re-encoding the known members;
// nothing panics.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"name":"a","n":1}`, `{"n":1,"n":2}`, `{"in":{"a":"b"}}`, "\x00", `{"sub":{"x":9}}`, `[[[[`, `{"name":"\ud83d\ude00"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		v, err := decodeSample(body, "application/json")
		if err != nil {
			e, ok := errors.AsType[*broker.Error](err)
			if !ok || e.Public == "" {
				t.Fatalf("%q: %v is not a public error", body, err)
			}
			if e.Public != web.Description(e.Public) {
				t.Fatalf("%q: public sentence %q is not plain ASCII", body, e.Public)
			}
			return
		}
		if strings.Count(body, `"name"`) > 1 && v.In == nil {
			t.Fatalf("%q: a duplicate passed", body)
		}
	})
}
