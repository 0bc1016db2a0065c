package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ebb-broker/ebb/web"
)

// trickle is a body that records the largest read buffer.
type trickle struct{ most int }

func (b *trickle) Read(p []byte) (int, error) {
	b.most = max(b.most, len(p))
	return 0, io.ErrUnexpectedEOF
}

// A header with a large Content-Length costs its sender a few bytes, and over
// HTTP/2 a hundred fit on one connection. Memory must be allocated only for
// received bytes.
func TestReadBodyBelievesNoPromise(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	body := &trickle{}
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.ContentLength = limit
	if _, err := web.ReadBody(r, limit); err == nil {
		t.Error("a body that ended early was taken")
	}
	if body.most > 8<<10 {
		t.Errorf("%d bytes were set aside for a body of which none had come", body.most)
	}
}
