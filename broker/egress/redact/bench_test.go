package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// bodies returns responses without secrets.
func bodies() map[string][]byte {
	noise := make([]byte, 64<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	object := `{"id": 4711, "name": "a repository", "private": false, "html_url": "https://github.com/acme/web"},` + "\n"
	prose := "The credential is added after the request has left the sandbox, and what comes back is looked through.\n"
	page := `<tr class="row"><td><a href="/acme/web/pulls?page=2&amp;q=is%3Aopen">Open &quot;pull&quot; requests</a></td><td style="width: 20px">&nbsp;</td></tr>` + "\n"
	text, _ := json.Marshal(strings.Repeat("func main() {\n\tfmt.Println(\"a \\\"text\\\" in a string\", a<b && c>d)\n}\n", 800))
	lines := strings.Builder{}
	for rest := base64.StdEncoding.EncodeToString(noise[:40<<10]); len(rest) > 60; rest = rest[60:] {
		lines.WriteString(rest[:60] + "\\n")
	}
	form := url.Values{}
	for i := range 800 {
		form.Set(fmt.Sprint("item[", i, "]"), "some text, with (signs) & spaces: é")
	}
	locks := strings.Builder{}
	for i := range 300 {
		fmt.Fprintf(&locks, "    \"node_modules/package-%d\": {\n      \"version\": \"1.2.%d\",\n      \"integrity\": \"sha512-%s\"\n    },\n", i, i, base64.StdEncoding.EncodeToString(noise[i*64:i*64+64]))
	}
	words := strings.Builder{}
	for i := range 6000 {
		fmt.Fprintf(&words, "package%d\n", i*i)
	}
	repeat := func(s string) []byte { return []byte(strings.Repeat(s, 64<<10/len(s))) }
	return map[string][]byte{
		"json": repeat(object), "text": repeat(prose), "binary": noise, "html": repeat(page), "json of code": text, "json of base64": []byte(`{"content":"` + lines.String() + `"}`),
		"base64": []byte(base64.StdEncoding.EncodeToString(noise[:48<<10])), "base64 of text": []byte(base64.StdEncoding.EncodeToString(repeat(prose))), "form": []byte(form.Encode()), "lock file": []byte(locks.String()), "hex": []byte(fmt.Sprintf("%x", noise[:32<<10])),
		"words": []byte(words.String()), "zeros": make([]byte, 64<<10), "backslashes": repeat(`\\`),
	}
}

// tokens returns sets of secrets: one token, the parts of git's Basic, and a short one.
func tokens() map[string][]string {
	token := "ghs_" + strings.Repeat("aB3", 12)
	return map[string][]string{
		"token": {token}, "basic": {token, "x-access-token", base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))}, "short": {"s3cr3t12"},
	}
}

// measure times f, which reads a number of bytes.
func measure(b *testing.B, bytes int, f func()) {
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

// through copies from a reader as an HTTP proxy does.
func through(b *testing.B, r io.Reader, buf []byte) {
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, buf); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkBodies(b *testing.B) {
	buf := make([]byte, 32<<10)
	for what, secrets := range tokens() {
		r := mustNew(b, secrets...)
		for name, text := range bodies() {
			b.Run(what+"/"+strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
				measure(b, len(text), func() { through(b, r.Reader(io.NopCloser(bytes.NewReader(text)), nil), buf) })
			})
		}
	}
}

// BenchmarkSmall measures a response of 1 KiB, its headers, and one event of a stream.
func BenchmarkSmall(b *testing.B) {
	headers := []string{"GitHub.com", "application/json; charset=utf-8", "Tue, 24 Nov 2026 10:00:00 GMT", `W/"` + strings.Repeat("0af1", 16) + `"`, "public, max-age=60, s-maxage=60", "Accept,Accept-Encoding, Accept, X-Requested-With",
		"github.v3; format=json", "4999", "60", "max-age=31536000; includeSubdomains; preload", "deny", "nosniff", "0", "origin-when-cross-origin, strict-origin-when-cross-origin", "default-src 'none'", "F0E1:2B3C:4D5E6F7:8A9B0C1:65432100",
		"<https://api.github.com/repositories/1300192/issues?page=2>; rel=\"next\", <https://api.github.com/repositories/1300192/issues?page=7>; rel=\"last\""}
	event := []byte("data: {\"choices\":[{\"delta\":{\"content\":\" and\"},\"index\":0}]}\n\n")
	text, buf := append(bodies()["json"][:1009:1009], bodies()["json"][:100]...), make([]byte, 32<<10)
	for what, secrets := range tokens() {
		r := mustNew(b, secrets...)
		b.Run(what+"/body", func(b *testing.B) {
			measure(b, len(text), func() { through(b, r.Reader(io.NopCloser(bytes.NewReader(text)), nil), buf) })
		})
		b.Run(what+"/headers", func(b *testing.B) {
			measure(b, 0, func() {
				for _, h := range headers {
					if _, n := r.Text(h); n > 0 {
						b.Fatal(h)
					}
				}
			})
		})
		b.Run(what+"/event", func(b *testing.B) {
			stream := r.Reader(io.NopCloser(&repeated{text: event}), nil)
			measure(b, len(event), func() {
				if n, err := stream.Read(buf); err != nil || n != len(event) {
					b.Fatal(n, err)
				}
			})
		})
	}
}

// repeated returns the same text with each read.
type repeated struct{ text []byte }

func (r *repeated) Read(p []byte) (int, error) { return copy(p, r.text), nil }
