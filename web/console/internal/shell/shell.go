package shell

import (
	"context"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

// Broker is the part of the core that the shell calls.
type Broker interface {
	// Once claims a key until a time. It returns an error of kind Conflict when
	// the key was claimed before.
	Once(ctx context.Context, key string, until time.Time) error
}

// Config holds the dependencies of New.
type Config struct {
	Broker    Broker
	Mux       *web.Mux
	Sessions  *session.Sessions
	Origin    string // scheme and host of the public URL
	Key       []byte // of the nonces of forms
	Now       func() time.Time
	Templates fs.FS // templates/*.html
	Assets    fs.FS // assets/*
}

// Shell serves the pages of the areas.
type Shell struct {
	b         Broker
	mux       *web.Mux
	sessions  *session.Sessions
	origin    string
	key       []byte
	clock     func() time.Time
	embedded  fs.FS
	assets    *assets
	version   string
	templates map[string]*template.Template

	routes []Route
	nav    []NavEntry
	banner func(echo.Context, *session.Visit) Banner
}

// New returns a shell without pages. Open adds them.
func New(c Config) (*Shell, error) {
	s := &Shell{b: c.Broker, mux: c.Mux, sessions: c.Sessions, origin: c.Origin, key: c.Key, clock: c.Now, embedded: c.Templates}
	var err error
	if s.assets, err = openAssets(c.Assets, c.Mux.Base()); err != nil {
		return nil, err
	}
	s.version, err = versionOf(c.Templates, c.Assets)
	return s, err
}

// Contents are the areas of the console.
type Contents struct {
	Routes []Route
	Nav    []NavEntry
	Funcs  template.FuncMap // the functions that the templates of areas call
	Banner func(echo.Context, *session.Visit) Banner
}

// Open sets the areas. Call it once, before the first request.
func (s *Shell) Open(c Contents) (err error) {
	s.routes, s.nav, s.banner = c.Routes, c.Nav, c.Banner
	s.templates, err = s.parse(s.embedded, c.Funcs)
	return err
}

// Version identifies the templates and assets that draw pages.
func (s *Shell) Version() string { return s.version }

// Base returns the path of the public URL.
func (s *Shell) Base() string { return s.mux.Base() }

// Visit returns the visitor, for routes that are not made by Page or Form.
func (s *Shell) Visit(c echo.Context) (*session.Visit, error) { return s.sessions.Visit(c, false) }

// ServeAsset serves GET /assets/:hash/:name.
func (s *Shell) ServeAsset(c echo.Context) error { return s.assets.serve(c) }

// Route is a method and path with the handler that serves it.
type Route struct {
	web.Route
	Handler echo.HandlerFunc
}

// Page returns the route of a page.
func (s *Shell) Page(path string, h func(echo.Context, *session.Visit) error) Route {
	return Route{web.Route{Method: http.MethodGet, Path: path}, s.Guarded(func(c echo.Context) error {
		v, err := s.sessions.Visit(c, false)
		if errors.Is(err, session.ErrNobody) {
			return s.toSignIn(c)
		}
		if err != nil {
			return err
		}
		return h(c, v)
	})}
}

// Watch returns the route of a state that an open page asks for by itself. Unlike
// Page it does not extend the session.
func (s *Shell) Watch(path string, h func(echo.Context, *session.Visit) error) Route {
	return Route{web.Route{Method: http.MethodGet, Path: path}, s.Guarded(func(c echo.Context) error {
		v, err := s.sessions.SignedIn(c.Request().Context(), c)
		if err != nil {
			return err
		}
		return h(c, v)
	})}
}

// Form returns the route of a form that changes state. ends marks forms that only deny, stop or
// revoke; they work while the LiveStore and the database do not answer (I6).
func (s *Shell) Form(path string, ends bool, h func(echo.Context, *session.Visit) error) Route {
	return Route{web.Route{Method: http.MethodPost, Path: path}, s.Guarded(func(c echo.Context) error {
		v, err := s.sessions.Visit(c, ends)
		if err != nil {
			return err
		}
		if err := s.Gate(c, v, ends); err != nil {
			return err
		}
		return h(c, v)
	})}
}

// Redirect sends the browser to a path of this console.
func (s *Shell) Redirect(c echo.Context, path string) error {
	return c.Redirect(http.StatusSeeOther, s.Base()+path)
}

// toSignIn stores the requested path in a cookie. In the address, another site could choose it.
func (s *Shell) toSignIn(c echo.Context) error {
	to := strings.TrimPrefix(c.Request().URL.RequestURI(), s.Base())
	if len(to) < 1024 && s.IsPage(to) {
		session.SetCookie(c, session.CookieTo, strings.ReplaceAll(to, ";", "%3B"), http.SameSiteLaxMode, 10*time.Minute)
	}
	return s.Redirect(c, "/signin")
}

// IsPage reports whether to is a path of this console.
func (s *Shell) IsPage(to string) bool {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(to, "/"), "/")
	first, _, _ = strings.Cut(first, "?")
	return slices.ContainsFunc(s.routes, func(r Route) bool {
		return r.Method == http.MethodGet && first != "" && first != "signin" && first != "events" && first != "assets" && (r.Path == "/"+first || strings.HasPrefix(r.Path, "/"+first+"/"))
	})
}
