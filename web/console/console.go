package console

import (
	"errors"
	"html/template"
	"net/http"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/expirable"
	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/people"
	"ebb/web"
	"ebb/web/console/passkey"
	"ebb/web/signin"
)

// Config is what New needs.
type Config struct {
	Broker   *broker.Broker      // required
	Mux      *web.Mux            // required: where the routes are registered
	Sessions people.Store        // required
	Passkeys people.PasskeyStore // required
	Names    people.PasskeyNames // required
	Reach    people.ReachStore   // required
	Key      []byte              // 32 bytes that replicas share: what forms carry derives from it
	Methods  []signin.Method     // ways in
	Friction Friction            // what approving asks for at each risk
	Now      func() time.Time    // nil = time.Now
	// TellsPeople: a channel of notifications reaches people by their own address.
	TellsPeople bool
}

// Console serves one broker.
type Console struct {
	cfg    Config
	b      *broker.Broker
	mux    *web.Mux
	origin string        // scheme and host at which people see it
	keys   *passkey.Keys // nil: at an address there are none
	assets *assets
	live   *live
	gists  gists
	pages  map[string]*template.Template
	// version names what pages are drawn by.
	version string
	// lastSeen is who was here last, for those who end something while the database is gone.
	lastSeen *lru.LRU[string, people.Session]
}

// New prepares the pages. Register makes them reachable.
func New(c Config) (*Console, error) {
	if c.Broker == nil || c.Mux == nil || c.Sessions == nil || c.Passkeys == nil || c.Names == nil || c.Reach == nil || len(c.Key) != 32 {
		return nil, errors.New("console: Broker, Mux, Sessions, Passkeys, Names, Reach and a Key of 32 bytes are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Console{cfg: c, b: c.Broker, mux: c.Mux, origin: strings.TrimSuffix(c.Mux.PagesURL(), c.Mux.Base()), live: newLive(c.Broker), lastSeen: lru.NewLRU[string, people.Session](seenAtMost, nil, sessionLife)}
	var err error
	if s.keys, err = passkey.New(s.origin, c.Key, c.Now); errors.Is(err, passkey.ErrAddress) {
		s.keys, err = nil, nil
	} else if err != nil {
		return nil, err
	}
	if s.assets, err = openAssets(c.Mux.Base()); err != nil {
		return nil, err
	}
	if s.version, err = versionOf(); err != nil {
		return nil, err
	}
	s.pages, err = s.parse()
	return s, err
}

// Register adds every route to the Mux.
func (s *Console) Register() {
	for _, r := range s.routes() {
		s.mux.AddPage(r.Method, r.Path, r.h)
	}
	s.mux.Pages(func(c echo.Context, err error) error {
		headers(c.Response().Header())
		return s.fail(c, err)
	})
}

// Routes lists method and path of every route, below the public URL's path.
func (s *Console) Routes() []web.Route {
	var out []web.Route
	for _, r := range s.routes() {
		out = append(out, r.Route)
	}
	return out
}

type route struct {
	web.Route
	h echo.HandlerFunc
}

// page is a route of a page that people read.
func (s *Console) page(path string, h func(echo.Context, *visit) error) route {
	return route{web.Route{Method: http.MethodGet, Path: path}, s.guarded(func(c echo.Context) error {
		v, err := s.visit(c, false)
		if errors.Is(err, errNobody) {
			return s.toSignIn(c)
		}
		if err != nil {
			return err
		}
		return h(c, v)
	})}
}

// form is a route that changes something. ends: it only ends things, and works although
// neither the ledger nor the database answers (I6).
func (s *Console) form(path string, ends bool, h func(echo.Context, *visit) error) route {
	return route{web.Route{Method: http.MethodPost, Path: path}, s.guarded(func(c echo.Context) error {
		v, err := s.visit(c, ends)
		if err != nil {
			return err
		}
		if err := s.gate(c, v, ends); err != nil {
			return err
		}
		return h(c, v)
	})}
}
