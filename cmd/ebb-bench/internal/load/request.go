package load

import (
	"fmt"
	"net/url"
)

// Header is one header field. Its value must not contain line breaks.
type Header struct{ Name, Value string }

// Build returns a POST with body, or a GET if contentType is "", as HTTP/1.1
// bytes.
func (t Target) Build(path, contentType string, body []byte, headers ...Header) []byte {
	method := "POST"
	if contentType == "" {
		method = "GET"
	}
	b := fmt.Appendf(make([]byte, 0, 512+len(body)), "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n", method, t.URL.Path+path, t.URL.Host)
	for _, h := range headers {
		b = fmt.Appendf(b, "%s: %s\r\n", h.Name, h.Value)
	}
	if method == "POST" {
		b = fmt.Appendf(b, "Content-Type: %s\r\nContent-Length: %d\r\n", contentType, len(body))
	}
	return append(append(b, "\r\n"...), body...)
}

// FormType is the content type of a form.
const FormType = "application/x-www-form-urlencoded"

// Form builds a form POST.
func (t Target) Form(path string, form url.Values, headers ...Header) []byte {
	return t.Build(path, FormType, []byte(form.Encode()), headers...)
}
