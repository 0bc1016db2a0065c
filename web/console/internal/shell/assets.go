package shell

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
)

// asset is one file that pages link to.
type asset struct {
	hash, kind  string
	plain, gzip []byte // gzip is nil when it would not be smaller
}

// assets are served under the hash of their content, so that browsers can cache
// them without a time limit.
type assets struct {
	base  string
	files map[string]asset
}

// kinds are the media types of assets by extension. The table of the operating
// system is not used, because the container image has none.
var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8", ".woff2": "font/woff2",
}

func openAssets(embedded fs.FS, base string) (*assets, error) {
	names, err := fs.Glob(embedded, "assets/*")
	if err != nil {
		return nil, err
	}
	// Style sheets come last: they link to other assets.
	slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(linksLast(a), linksLast(b)) })
	a := &assets{base: base, files: map[string]asset{}}
	for _, file := range names {
		body, err := fs.ReadFile(embedded, file)
		if err != nil {
			return nil, err
		}
		kind, known := kinds[path.Ext(file)]
		if !known {
			return nil, fmt.Errorf("console: asset %q has no media type", file)
		}
		if path.Ext(file) == ".css" {
			body = a.link(body)
		}
		small, err := compress(body, gzip.BestCompression, "")
		if err != nil {
			return nil, err
		}
		if len(small) >= len(body) {
			small = nil
		}
		sum := sha256.Sum256(body)
		a.files[path.Base(file)] = asset{hash: base64.RawURLEncoding.EncodeToString(sum[:12]), kind: kind, plain: body, gzip: small}
	}
	return a, nil
}

func linksLast(file string) string {
	if path.Ext(file) == ".css" {
		return "~" + file
	}
	return file
}

// link adds the hashes to the links of a style sheet: url("NAME") becomes url("../HASH/NAME").
func (a *assets) link(css []byte) []byte {
	for name, f := range a.files {
		css = bytes.ReplaceAll(css, []byte(`url("`+name+`")`), []byte(`url("../`+f.hash+"/"+name+`")`))
	}
	return css
}

// url returns the URL path of an asset. An unknown name is an error in a template.
func (a *assets) url(name string) (string, error) {
	f, known := a.files[name]
	if !known {
		return "", fmt.Errorf("console: no asset %q", name)
	}
	return a.base + "/assets/" + f.hash + "/" + name, nil
}

func (a *assets) serve(c echo.Context) error {
	f, known := a.files[c.Param("name")]
	if !known || c.Param("hash") != f.hash {
		return broker.E(broker.NotFound, "There is no such file.", nil)
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := f.plain
	if f.gzip != nil && acceptsGzip(c.Request()) {
		h.Set("Content-Encoding", "gzip")
		body = f.gzip
	}
	return c.Blob(http.StatusOK, f.kind, body)
}

// ServeWorker serves the service worker. Its path has no hash, because browsers look there for
// a new version, and its directory is its scope. It loads nothing.
func (s *Shell) ServeWorker(c echo.Context) error {
	h, f := c.Response().Header(), s.assets.files["worker.js"]
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", "default-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	return c.Blob(http.StatusOK, f.kind, f.plain)
}

// versionOf returns the version of the pages: a hash of all templates and assets.
func versionOf(embedded ...fs.FS) (string, error) {
	h := sha256.New()
	for _, dir := range embedded {
		err := fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(dir, path)
			h.Write([]byte(path))
			h.Write(b)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
