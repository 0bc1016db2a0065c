package options_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/options"
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
	var got settings
	err := options.Decode([]byte(`{"places":["a"],"max_age":"90m","nested":{"poll":"2s"},"leeway":"0s"}`), &got)
	if err != nil || len(got.Places) != 1 || got.MaxAge != 90*time.Minute || got.Nested.Poll != 2*time.Second || got.Leeway == nil || *got.Leeway != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	const notDuration, unreadable = ": this is not a length of time; write it like 30s or 1h, and leave it out for the default", "it cannot be read as a mapping of keys to values"
	for text, want := range map[string]string{
		``: unreadable, `[]`: "a list does not fit here", `null`: "it has no value; give it one or remove the line", `{"places":["a"]} {}`: unreadable, "{\"places\":[\"\xff\"]}": unreadable,
		`{"places":["a"],"max":1}`: "max: there is no such key", `{"Places":["a"]}`: "Places: there is no such key", `{"Name":"x"}`: "Name: there is no such key", `{"-":"x"}`: "-: there is no such key",
		`{"nested":{"poll":"1s","Poll":"2s"}}`: "nested.Poll: there is no such key", `{"places":["a"],"places":["b"]}`: "places: it is there twice", `{"nested":{"poll":"1s","poll":"2s"}}`: "nested.poll: it is there twice",
		`{"places":"secret"}`: "places: a text does not fit here", `{"places":[1]}`: "places.0: a number does not fit here", `{"nested":true}`: "nested: true or false does not fit here", `{"places":{}}`: "places: a mapping does not fit here",
		`{"places":null}`: "places: it has no value; give it one or remove the line", `{"places":["a",null]}`: "places.1: it has no value; give it one or remove the line",
		`{"max_age":"30"}`: "max_age" + notDuration, `{"max_age":30}`: "max_age" + notDuration, `{"max_age":"0s"}`: "max_age" + notDuration, `{"max_age":"-1h"}`: "max_age" + notDuration, `{"max_age":""}`: "max_age" + notDuration,
		`{"max_age":"99999999h"}`: "max_age" + notDuration, `{"leeway":"-1s"}`: "leeway" + notDuration, `{"leeway":null}`: "leeway" + notDuration, `{"nested":{"poll":"x"}}`: "nested.poll" + notDuration,
	} {
		var got settings
		if err := options.Decode([]byte(text), &got); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// FuzzDecode: Decode either returns an error with a text, or accepts valid JSON with durations
// that are not negative.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"max_age":"1h"}`, `{"max_age":null}`, `{"nested":{"poll":"1ns"}}`, `{"max_age":"1h","max_age":"2h"}`, `{"nested":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got settings
		err := options.Decode(raw, &got)
		if err != nil && err.Error() == "" {
			t.Errorf("%q: an error without a text", raw)
		}
		if err == nil && (got.MaxAge < 0 || got.Nested.Poll < 0 || got.Name != "" || !json.Valid(raw)) {
			t.Errorf("%q: %+v", raw, got)
		}
	})
}
