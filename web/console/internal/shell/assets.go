package shell

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
)

// asset is one file that pages link to.
type asset struct {
	hash, kind  string
	plain, gzip []byte
}

// assets are served under the hash of their content, so that browsers can cache
// them without a time limit.
type assets struct {
	base  string
	files map[string]asset
}

func openAssets(embedded fs.FS, base string) (*assets, error) {
	names, err := fs.Glob(embedded, "assets/*")
	if err != nil {
		return nil, err
	}
	a := &assets{base: base, files: map[string]asset{}}
	for _, file := range names {
		body, err := fs.ReadFile(embedded, file)
		if err != nil {
			return nil, err
		}
		var small bytes.Buffer
		z, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		if _, err := z.Write(body); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(body)
		a.files[path.Base(file)] = asset{hash: base64.RawURLEncoding.EncodeToString(sum[:12]), kind: mime.TypeByExtension(path.Ext(file)), plain: body, gzip: small.Bytes()}
	}
	return a, nil
}

// url returns the URL path of an asset. An unknown name is an error in a
// template.
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
	if strings.Contains(c.Request().Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.gzip
	}
	return c.Blob(http.StatusOK, f.kind, body)
}

// versionOf returns the version of the pages: a hash of all templates and
// assets.
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
