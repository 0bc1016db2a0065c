package agenttext_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

const canary = "s3cr3t-agent-words"

// Nothing but Raw, JSON and Show may let the words out.
func TestPrintsAsMarker(t *testing.T) {
	t.Parallel()
	u := agenttext.From(canary)
	hidden := struct{ u agenttext.Untrusted }{u}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T%v", "%p", "%08.3f", "%U"} {
		for _, v := range []any{u, &u, hidden, []agenttext.Untrusted{u}, map[string]agenttext.Untrusted{"a": u}} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, canary) || strings.Contains(got, fmt.Sprintf("%x", canary)) {
				t.Errorf("%s of %T = %q", verb, v, got)
			}
		}
	}
	if got, want := fmt.Sprint(u), "[[UNRENDERED-UNTRUSTED]]"; got != want || u.String() != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := fmt.Errorf("task: %w %v", io.EOF, u).Error(); strings.Contains(got, canary) {
		t.Errorf("error shows %q", got)
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "reason", u, "in", hidden)
	}
	if strings.Contains(log.String(), canary) {
		t.Errorf("log shows %q", log.String())
	}
	var page bytes.Buffer
	if err := template.Must(template.New("").Parse(`<p title="{{.}}">{{.}}</p>`)).Execute(&page, u); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), canary) || !strings.Contains(page.String(), "UNRENDERED") {
		t.Errorf("page shows %q", page.String())
	}
	if b, err := u.MarshalText(); err != nil || strings.Contains(string(b), canary) {
		t.Errorf("MarshalText = %q, %v", b, err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw  string
		max  int
		want error
	}{
		{"", 0, nil},
		{"", 10, nil},
		{"abc", 3, nil},
		{"äöü", 3, nil},
		{"abcd", 3, agenttext.ErrTooLong},
		{"a", 0, agenttext.ErrTooLong},
		{"a", -1, agenttext.ErrTooLong},
		{"a\xffb", 10, agenttext.ErrNotText},
		{"a\x00b", 10, agenttext.ErrNotText},
		{"\xed\xa0\x80", 10, agenttext.ErrNotText},
	} {
		u, err := agenttext.New(c.raw, c.max)
		if !errors.Is(err, c.want) {
			t.Errorf("New(%q, %d) = %v, want %v", c.raw, c.max, err, c.want)
		}
		if err == nil && u.Raw() != c.raw || err != nil && !u.Empty() {
			t.Errorf("New(%q, %d) holds %q", c.raw, c.max, u.Raw())
		}
		if err != nil && len(c.raw) > 1 && strings.Contains(err.Error(), c.raw) {
			t.Errorf("error quotes the text: %v", err)
		}
	}
	if got, want := agenttext.From("abc").Hash(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; got != want {
		t.Errorf("Hash = %s, want %s", got, want)
	}
	if got, want := (agenttext.Untrusted{}).Hash(), agenttext.From("").Hash(); got != want {
		t.Errorf("Hash of nothing = %s, want %s", got, want)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":             `""`,
		"plain":        `"plain"`,
		"a\"b\\c/d":    `"a\u0022b\u005cc/d"`,
		"\x1b\n\x7f":   `"\u001b\u000a\u007f"`,
		"<&>":          `"\u003c\u0026\u003e"`,
		"é\u202e":      `"\u00e9\u202e"`,
		"\U0001F512":   `"\ud83d\udd12"`,
		"\xff":         `"\udcff"`,
		"\xed\xa0\x80": `"\udced\udca0\udc80"`,
	} {
		b, err := json.Marshal(agenttext.From(raw))
		if err != nil || string(b) != want {
			t.Errorf("Marshal(%q) = %s, %v, want %s", raw, b, err, want)
		}
	}
	for in, want := range map[string]string{
		`"\u0041\n\t\/\"\\\b\f\r"`: "A\n\t/\"\\\b\f\r",
		`"\ud83d\ude00é"`:          "\U0001F600é",
		`"\ud800x"`:                "\uFFFDx",
		`"\ud800\u0041"`:           "\uFFFDA",
		`"\udc41"`:                 "\uFFFD", // an ASCII byte never needs this form
		`null`:                     "",
	} {
		var u agenttext.Untrusted
		if err := json.Unmarshal([]byte(in), &u); err != nil || u.Raw() != want {
			t.Errorf("Unmarshal(%s) = %q, %v, want %q", in, u.Raw(), err, want)
		}
	}
	for _, in := range []string{`1`, `true`, `{}`, `[]`, `{"text":"a"}`} {
		var u agenttext.Untrusted
		if err := json.Unmarshal([]byte(in), &u); err == nil {
			t.Errorf("Unmarshal(%s) accepted", in)
		}
	}
	for _, in := range []string{``, `"`, `"\"`, `"\u12"`, `"\u+123"`, `"\x"`, "\"a\nb\"", `"a"b"`} {
		var u agenttext.Untrusted
		if err := u.UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("UnmarshalJSON(%q) accepted", in)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, b := range hostile(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		u := agenttext.From(string(raw))
		b, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range b {
			if c < 0x20 || c > 0x7e {
				t.Fatalf("byte %x in %s", c, b)
			}
		}
		var back agenttext.Untrusted
		if err := json.Unmarshal(b, &back); err != nil || back.Raw() != string(raw) {
			t.Fatalf("%q came back as %q, %v", raw, back.Raw(), err)
		}
		// A stranger's text must not cause a crash, and the parser must agree with
		// encoding/json about the extent of strings.
		var s string
		if json.Unmarshal(raw, &s) == nil && bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) {
			if err := json.Unmarshal(raw, &back); err != nil {
				t.Fatalf("%q: %v", raw, err)
			}
		}
		_ = back.UnmarshalJSON(raw)
	})
}
