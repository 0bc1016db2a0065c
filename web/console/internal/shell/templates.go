package shell

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

// shared is the file name prefix of templates that every page may use. The
// other templates are pages.
const shared = "_"

// parse parses every page together with the frame around it. funcs are the functions of the areas.
func (s *Shell) parse(templates fs.FS, funcs template.FuncMap) (map[string]*template.Template, error) {
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, err
	}
	base, err := template.New("frame").Funcs(s.funcs()).Funcs(funcs).ParseFS(templates, "templates/"+shared+"*.html")
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

// Draw sends a page. It renders into memory first, so that an error cannot leave half a page.
func (s *Shell) Draw(c echo.Context, status int, v *session.Visit, name string, f Frame, page any) error {
	var b bytes.Buffer
	vw := s.View(c, v, f, page)
	if v != nil {
		vw.Banner = s.banner(c, v)
	}
	if err := s.templates[name].ExecuteTemplate(&b, "frame", vw); err != nil {
		return err
	}
	return send(c, status, b.Bytes())
}

// agentText is agent text with invisible characters escaped, and notes about it.
type agentText struct {
	Text  string
	Notes []agenttext.Note
	Count int // code points
}

// funcs returns the functions that every template has. Those that format times
// take the view first, because it has the time zone.
func (s *Shell) funcs() template.FuncMap {
	return template.FuncMap{
		"asset": s.assets.url,
		"words": func(items []string) string { return strings.Join(items, ", ") },
		"agent": func(u agenttext.Untrusted, max int) agentText {
			text, notes := agenttext.Show(u, max)
			return agentText{Text: text, Notes: notes, Count: u.Len()}
		},
		"utc":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":    Clock,
		"left":     func(v View, t time.Time) string { return Span(t.Sub(v.Now)) },
		"ago":      func(v View, t time.Time) string { return Span(v.Now.Sub(t)) },
		"span":     Span,
		"table":    func(caption, left, right string, rows []Row) table { return table{caption, left, right, rows} },
		"problem":  func(id, text string) Problem { return Problem{id, text} },
		"plain":    func(name any) string { return agenttext.Name(fmt.Sprint(name)) },
		"shortID":  ShortID,
		"task":     func(v View, id, name string) taskLink { return taskLink{v, id, name} },
		"short":    func(v View, t time.Time) string { return t.In(v.Zone).Format("15:04:05") },
		"zoneName": func(v View) string { return v.Now.In(v.Zone).Format("MST") },
		"cedar":    Editable,
	}
}
