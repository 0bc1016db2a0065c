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

// shared are the templates that every page may use; the others are pages.
const shared = "_"

// parse reads every page with the frame around it.
func (s *Console) parse() (map[string]*template.Template, error) {
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, err
	}
	base, err := template.New("frame").Funcs(s.funcs()).ParseFS(templates, "templates/"+shared+"*.html")
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

// draw answers with a page. It draws before it writes: half a page is no page.
func (s *Console) draw(c echo.Context, status int, v *visit, name string, f frame, page any) error {
	var b bytes.Buffer
	vw := s.view(c, v, f, page)
	if v != nil {
		vw.Banner = s.banner(c, v)
	}
	if err := s.pages[name].ExecuteTemplate(&b, "frame", vw); err != nil {
		return err
	}
	return c.HTMLBlob(status, b.Bytes())
}
