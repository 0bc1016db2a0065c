package shell

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// padding is the largest number of bytes by which the length of a compressed page varies at random.
const padding = 256

// send sends a page, compressed if the length of the response cannot help another site to guess the
// content of the page (BREACH, docs/decisions/0106-compression-of-pages.md).
func send(c echo.Context, status int, page []byte) error {
	h := c.Response().Header()
	h.Add("Vary", "Accept-Encoding, Sec-Fetch-Site")
	if r := c.Request(); acceptsGzip(r) && ownRequest(r) {
		small, err := compress(page, gzip.BestSpeed, strings.Repeat("-", rand.IntN(padding)))
		if err != nil {
			return err
		}
		h.Set("Content-Encoding", "gzip")
		page = small
	}
	return c.HTMLBlob(status, page)
}

// ownRequest reports whether a page of the console or the person started the
// request. Other sites cannot set the header (Fetch Metadata).
func ownRequest(r *http.Request) bool {
	site := r.Header.Values("Sec-Fetch-Site")
	return len(site) == 1 && (site[0] == "same-origin" || site[0] == "none")
}

// acceptsGzip reports whether the client names gzip without a weight. Browsers do.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(coding) == "gzip" {
			return true
		}
	}
	return false
}

// compress returns body in the gzip format. name is the file name in its header
// (RFC 1952 section 2.3.1), which browsers ignore.
func compress(body []byte, level int, name string) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, err
	}
	z.Name = name
	if _, err := z.Write(body); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
