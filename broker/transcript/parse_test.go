package transcript

import (
	"bytes"
	"testing"
)

// FuzzParse: a parsed transcript has the same form when it is written and parsed again.
func FuzzParse(f *testing.F) {
	whole := Transcript{Head: Head{ID: NewID(), Host: "api.example.com:443", Path: "/a%20b"}, Query: "a=1", Request: Message{Headers: map[string][]string{"X-Note": {"\x1b"}}}}
	first, err := line(whole)
	if err != nil {
		f.Fatal(err)
	}
	second, err := line(ending{Body{Text: "ä\n", Bytes: 3}, Message{Status: 200}})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range [][]byte{nil, first, append(bytes.Clone(first), second...), append(bytes.Clone(first), second[:10]...), []byte("{}\n{}\n{}\n"), []byte("\n"), []byte("null\nnull\n")} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := parse(text)
		if err != nil {
			return
		}
		head := x
		head.Answer, head.Request.Body = nil, Body{}
		out, err := line(head)
		if err != nil {
			t.Fatal(err)
		}
		if x.Answer != nil {
			rest, err := line(ending{x.Request.Body, *x.Answer})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, rest...)
		}
		if bytes.ContainsFunc(out, func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }) {
			t.Errorf("%q", out)
		}
		again, err := parse(out)
		if err != nil || again.ID != x.ID || again.Query != x.Query || (again.Answer == nil) != (x.Answer == nil) {
			t.Errorf("%q became %q: %+v, %v", text, out, again, err)
		}
	})
}
