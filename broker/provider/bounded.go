package provider

import (
	"io"
	"net/http"
)

// bounded ends answers that go on for ever: an error, not a short answer. It is for
// libraries that read answers themselves; who does it alone has ReadBody.
type bounded struct {
	http.RoundTripper
	most int64
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, b.most}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}
