package console

import (
	"errors"
	"github.com/ebb-broker/ebb/broker/core"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/signin"

	lru "github.com/hashicorp/golang-lru/v2/expirable"
	"github.com/labstack/echo/v4"
)

// Config holds the dependencies and settings of New.
type Config struct {
	Broker   *core.Broker        // required
	Mux      *web.Mux            // required: where the routes are registered
	Sessions people.Store        // required
	Passkeys people.PasskeyStore // required
	Names    people.PasskeyNames // required
	Reach    people.ReachStore   // required
	Key      []byte              // 32 bytes that replicas share; keys of forms, cursors and challenges derive from it
	Methods  []signin.Method     // sign-in methods
	Friction Friction            // the proofs that an approval needs, by risk level
	Now      func() time.Time    // nil = time.Now
	// TellsPeople reports that a notification channel sends to people's own
	// addresses.
	TellsPeople bool
}

// Console serves the web console of one broker.
type Console struct {
	cfg    Config
	b      *core.Broker
	mux    *web.Mux
	origin string        // scheme and host of the public URL
	keys   *passkey.Keys // nil when the host is an IP address, where passkeys do not work
	assets *assets
	live   *live
	known  func() []route // every route of the console
	// version identifies the templates and assets that draw pages.
	version string
	// lastSeen caches sessions, so that people can still deny and revoke while
	// the database is unavailable.
	lastSeen *lru.LRU[string, people.Session]

	*pages
	*visits
	*requestPages
	*taskPages
	*credentialPages
	*auditPages
	*policyPages
	*emergencyPages
	*settingPages
}

// connect gives each area its dependencies. The other fields must be set
// before.
func (s *Console) connect() {
	c := &s.cfg
	s.pages = new(pages)
	s.visits = new(visits)
	s.requestPages = new(requestPages)
	s.taskPages = new(taskPages)
	s.credentialPages = new(credentialPages)
	s.auditPages = new(auditPages)
	s.policyPages = new(policyPages)
	s.emergencyPages = new(emergencyPages)
	s.settingPages = new(settingPages)
	*s.pages = pages{
		key:         c.Key,
		clock:       c.Now,
		assets:      s.assets,
		b:           s.b,
		keys:        s.keys,
		live:        s.live,
		mux:         s.mux,
		origin:      s.origin,
		emergencies: s.emergencyPages,
		visits:      s.visits,
	}
	*s.visits = visits{
		methods:      c.Methods,
		names:        c.Names,
		clock:        c.Now,
		passkeyStore: c.Passkeys,
		reach:        c.Reach,
		sessions:     c.Sessions,
		b:            s.b,
		keys:         s.keys,
		known:        s.known,
		lastSeen:     s.lastSeen,
		mux:          s.mux,
		pages:        s.pages,
		requests:     s.requestPages,
	}
	*s.requestPages = requestPages{
		friction:    c.Friction,
		key:         c.Key,
		reach:       c.Reach,
		tellsPeople: c.TellsPeople,
		b:           s.b,
		keys:        s.keys,
		mux:         s.mux,
		version:     s.version,
		pages:       s.pages,
		settings:    s.settingPages,
		visits:      s.visits,
	}
	*s.taskPages = taskPages{
		b:        s.b,
		audit:    s.auditPages,
		pages:    s.pages,
		requests: s.requestPages,
		visits:   s.visits,
	}
	*s.credentialPages = credentialPages{
		b:      s.b,
		audit:  s.auditPages,
		pages:  s.pages,
		visits: s.visits,
	}
	*s.auditPages = auditPages{
		b:      s.b,
		pages:  s.pages,
		visits: s.visits,
	}
	*s.policyPages = policyPages{
		b:        s.b,
		pages:    s.pages,
		requests: s.requestPages,
		visits:   s.visits,
	}
	*s.emergencyPages = emergencyPages{
		b:        s.b,
		keys:     s.keys,
		mux:      s.mux,
		pages:    s.pages,
		requests: s.requestPages,
		visits:   s.visits,
	}
	*s.settingPages = settingPages{
		clock:    c.Now,
		b:        s.b,
		keys:     s.keys,
		pages:    s.pages,
		requests: s.requestPages,
		visits:   s.visits,
	}
}

// New prepares the console. Register adds its routes to the Mux.
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
	s.known = s.routes
	s.connect()
	s.pages.templates, err = s.parse()
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
