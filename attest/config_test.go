package attest_test

import (
	"strings"
	"testing"
	"time"

	"ebb/attest"
)

type settings struct {
	Places []string      `json:"places"`
	MaxAge time.Duration `json:"max_age"`
	Nested struct {
		Poll time.Duration `json:"poll"`
	} `json:"nested"`
	Leeway *time.Duration `json:"leeway"`
	Name   string         `json:"-"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	got, err := attest.Decode[settings]("kind", []byte(`{"places":["a"],"max_age":"90m","nested":{"poll":"2s"},"leeway":"0s"}`))
	if err != nil || len(got.Places) != 1 || got.MaxAge != 90*time.Minute || got.Nested.Poll != 2*time.Second || got.Leeway == nil || *got.Leeway != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	for text, problem := range map[string]string{
		``: "EOF", `[]`: "array", `{"places":["a"],"max":1}`: "max", `{"Places":["a"]}`: "Places", `{"Name":"x"}`: "Name", `{"-":"x"}`: "unknown",
		`{"places":["a"],"places":["b"]}`: "places", `{"places":"a"}`: "places", `{"places":["a"]} {}`: "after top-level",
		`{"max_age":"30"}`: "max_age: this is not", `{"max_age":30}`: "max_age: this is not", `{"max_age":"0s"}`: "leave it out",
		`{"max_age":"-1h"}`: "max_age: this is not", `{"leeway":"-1s"}`: "leeway: this is not", `{"leeway":null}`: "leeway", `{"max_age":""}`: "max_age", `{"max_age":"99999999h"}`: "max_age", `{"nested":{"poll":"x"}}`: "nested/poll: this is not",
	} {
		got, err := attest.Decode[settings]("kind", []byte(text))
		if err == nil || !strings.Contains(err.Error(), problem) || !strings.HasPrefix(err.Error(), "attest/kind: configuration: ") {
			t.Errorf("%s: got %v, want %q", text, err, problem)
		}
		if got.Places != nil || got.MaxAge != 0 {
			t.Errorf("%s: an error with %+v", text, got)
		}
	}
}

// Whatever the file says, no duration comes out of it that means another.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"max_age":"1h"}`, `{"max_age":null}`, `{"nested":{"poll":"1ns"}}`, `{"max_age":"1h","max_age":"2h"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := attest.Decode[settings]("kind", raw)
		if err != nil && (got.MaxAge != 0 || got.Places != nil) {
			t.Errorf("%q: %v with %+v", raw, err, got)
		}
		if got.MaxAge < 0 || got.Nested.Poll < 0 || got.Name != "" {
			t.Errorf("%q: %+v", raw, got)
		}
	})
}
