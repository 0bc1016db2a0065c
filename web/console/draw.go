package console

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"path"
	"strings"

	"github.com/labstack/echo/v4"
)

//go:embed templates/*.html
var templates embed.FS

// shared is the file name prefix of templates that every page may use. The
// other templates are pages.
const shared = "_"

// parse parses every page together with the frame around it.
func (pg *pages) parse() (map[string]*template.Template, error) {
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, err
	}
	base, err := template.New("frame").Funcs(pg.funcs()).ParseFS(templates, "templates/"+shared+"*.html")
	if err != nil {
		return nil, err
	}
	out := map[string]*template.Template{}
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if strings.HasPrefix(name, shared) {
			continue
		}
		t, err := base.Clone()
		if err != nil {
			return nil, err
		}
		if out[name], err = t.ParseFS(templates, file); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// draw sends a page. It renders into memory first, so that an error cannot
// leave half a page.
func (pg *pages) draw(c echo.Context, status int, v *visit, name string, f frame, page any) error {
	var b bytes.Buffer
	vw := pg.view(c, v, f, page)
	if v != nil {
		vw.Banner = pg.emergencies.banner(c, v)
	}
	if err := pg.templates[name].ExecuteTemplate(&b, "frame", vw); err != nil {
		return err
	}
	return c.HTMLBlob(status, b.Bytes())
}
