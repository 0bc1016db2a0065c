package content

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxBody is the longest body in bytes that is read whole.
const maxBody = 1 << 20

// TakeBody reads the whole body of a request. Afterwards r.Body yields the same bytes again, with
// their length as r.ContentLength, once. An error is a *Error, or the error of reading the body; the
// request is then not to be sent.
func TakeBody(r *http.Request) ([]byte, error) {
	var read bytes.Buffer
	if r.Body != nil {
		read.Grow(int(min(max(r.ContentLength, 0), 16<<10)) + bytes.MinRead)
		if _, err := read.ReadFrom(io.LimitReader(r.Body, maxBody+1)); err != nil {
			return nil, err
		}
		_ = r.Body.Close() // only read
	}
	body := read.Bytes()
	if len(body) > maxBody {
		return nil, Refuse(fmt.Sprintf("it is longer than %d MiB", maxBody>>20))
	}
	if len(r.Trailer) > 0 { // net/http adds those that were not announced
		return nil, Refuse("the request has a trailer")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = nil // http.Transport would send a body again that has an Idempotency-Key, and whose connection broke
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	return body, nil
}

// HasType reports whether a request has exactly one Content-Type: media, alone or with charset=utf-8.
// It does not use mime.ParseMediaType, which lets charset* (RFC 2231) replace charset. Many servers read
// only charset, which could be UTF-7.
func HasType(r *http.Request, media string) bool {
	types := r.Header["Content-Type"]
	if len(types) != 1 {
		return false
	}
	got, parameters, _ := strings.Cut(types[0], ";")
	switch strings.ToLower(strings.Trim(parameters, " \t")) {
	case "", "charset=utf-8", `charset="utf-8"`:
		return strings.EqualFold(strings.TrimRight(got, " \t"), media)
	}
	return false
}
