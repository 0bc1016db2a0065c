package console_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// gzipped asks for a path as a browser does that a page of site led there.
func gzipped(b *browser, path, site string) answer {
	return b.do(http.MethodGet, path, nil, func(r *http.Request) {
		r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
		r.Header.Del("Sec-Fetch-Site")
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
	})
}

// TestCompressedPages: a page is compressed unless another site may have started the
// request (BREACH), and the length of a compressed page varies.
func TestCompressedPages(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Approver)
	for site, want := range map[string]string{"same-origin": "gzip", "none": "gzip", "cross-site": "", "same-site": "", "": ""} {
		a := gzipped(b, "/queue?q=guess", site)
		if got := a.Header.Get("Content-Encoding"); got != want || a.StatusCode != http.StatusOK {
			t.Errorf("started by %q: %d, Content-Encoding %q, want %q", site, a.StatusCode, got, want)
		}
		if v := a.Header.Get("Vary"); !strings.Contains(v, "Accept-Encoding") || !strings.Contains(v, "Sec-Fetch-Site") {
			t.Errorf("started by %q: Vary is %q", site, v)
		}
	}
	lengths := map[int]bool{}
	for range 20 {
		a := gzipped(b, "/queue?q=guess", "same-origin")
		lengths[len(a.body)] = true
		z, err := gzip.NewReader(strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(z)
		if err != nil || !strings.Contains(string(page), "</html>") {
			t.Fatalf("%v: %s", err, page)
		}
	}
	if len(lengths) < 5 {
		t.Errorf("20 responses have %d lengths", len(lengths))
	}
	if a := gzipped(b, "/queue/state?q=none", "same-origin"); a.StatusCode != http.StatusNotFound || a.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("the page of an error: %d %q", a.StatusCode, a.Header.Get("Content-Encoding"))
	}
	a := b.do(http.MethodGet, "/queue", nil, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip;q=0, identity") })
	if a.Header.Get("Content-Encoding") != "" {
		t.Error("a client that refuses gzip got it")
	}
}

var (
	assetLink = regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`)
	styleLink = regexp.MustCompile(`url\("\.\./([^"]+)"\)`)
)

// TestFirstVisit: the first page with its style sheet, script, icons and font
// transfers at most 60 KB. The font of other scripts than ASCII and Latin-1
// loads on demand and is not counted.
func TestFirstVisit(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	for range 20 {
		h.asked("orders:eu/1:write")
	}
	b := h.as(brokertest.Approver)
	page := gzipped(b, "/queue", "none")
	sum := len(page.body)
	seen := map[string]bool{}
	var load func(path string)
	load = func(path string) {
		if seen[path] || strings.HasSuffix(path, "/inter-ext.woff2") {
			return
		}
		seen[path] = true
		a := gzipped(b, path, "same-origin")
		if a.StatusCode != http.StatusOK || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") || a.Header.Get("Content-Type") == "" {
			t.Fatalf("%s: %d %v", path, a.StatusCode, a.Header)
		}
		sum += len(a.body)
		t.Logf("%6d bytes %s", len(a.body), path)
		if strings.HasSuffix(path, ".css") {
			for _, link := range styleLink.FindAllStringSubmatch(b.get(path).body, -1) {
				load("/assets/" + link[1])
			}
		}
	}
	for _, link := range assetLink.FindAllStringSubmatch(b.get("/queue").body, -1) {
		load(link[1])
	}
	if t.Logf("%6d bytes in all", sum); sum > 60_000 || len(seen) < 5 {
		t.Errorf("the first visit transfers %d bytes in %d files", sum, len(seen))
	}
}
