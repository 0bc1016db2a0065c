package console

import (
	"embed"
	"errors"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/auditlog"
	"github.com/ebb-broker/ebb/web/console/breakglass"
	"github.com/ebb-broker/ebb/web/console/credentials"
	"github.com/ebb-broker/ebb/web/console/insights"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/console/policies"
	"github.com/ebb-broker/ebb/web/console/proof"
	"github.com/ebb-broker/ebb/web/console/requests"
	"github.com/ebb-broker/ebb/web/console/settings"
	"github.com/ebb-broker/ebb/web/console/tasks"
	"github.com/ebb-broker/ebb/web/console/transcripts"
	"github.com/ebb-broker/ebb/web/signin"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed assets/*
var assets embed.FS

// Push is the channel that sends to browsers.
type Push = settings.Push

// Config holds the dependencies and settings of New.
type Config struct {
	Broker   *core.Broker                        // required
	Mux      *web.Mux                            // required: where the routes are registered
	Sessions people.Store                        // required
	Passkeys people.PasskeyStore                 // required
	Names    people.PasskeyNames                 // required
	Outbox   notify.Outbox                       // required
	Rights   func(people.Reach) broker.Principal // current rights of a person; required
	Reach    people.ReachStore                   // required
	Pushes   people.PushStore                    // required with Push
	Push     Push                                // the channel that sends to browsers; nil = none
	Key      []byte                              // 32 bytes that replicas share; keys of forms, cursors and challenges derive from it
	Methods  []signin.Method                     // sign-in methods
	Friction proof.Friction                      // the proofs that an approval needs, by risk level
	Now      func() time.Time                    // nil = time.Now
	// TellsPeople reports that a notification channel sends to people's own addresses.
	TellsPeople bool
}

// Console serves the web console of one broker.
type Console struct {
	mux    *web.Mux
	shell  *shell.Shell
	routes []shell.Route
}

// areas are the parts of the console. Each knows the shared parts and its own
// calls of the core, and no other area.
type areas struct {
	shell   *shell.Shell
	proofs  *proof.Proofs
	entries *list.Entries

	entrance    *entrance
	live        *live
	requests    *requests.Pages
	tasks       *tasks.Pages
	credentials *credentials.Pages
	auditlog    *auditlog.Pages
	transcripts *transcripts.Pages
	policies    *policies.Pages
	insights    *insights.Pages
	breakglass  *breakglass.Pages
	settings    *settings.Pages
	views       *list.Views
}

// newAreas builds the areas on the shell. The broker serves the port of each.
func newAreas(c Config, sessions *session.Sessions, sh *shell.Shell, keys *passkey.Keys) *areas {
	b, cursors, views := c.Broker, list.NewCursors(c.Key), list.NewViews(sh, c.Reach)
	entries := list.NewEntries(b, cursors)
	proofs := proof.New(proof.Config{Broker: b, Friction: c.Friction, Key: c.Key, Keys: keys, Passkeys: c.Passkeys, Methods: c.Methods, Shell: sh})
	return &areas{
		shell:       sh,
		proofs:      proofs,
		entries:     entries,
		entrance:    &entrance{b: b, shell: sh, sessions: sessions, methods: c.Methods, reach: c.Reach, clock: c.Now},
		live:        newLive(b, sessions),
		views:       views,
		requests:    requests.New(requests.Config{Broker: b, Shell: sh, Proofs: proofs, Cursors: cursors, Views: views, Key: c.Key, Reach: c.Reach, Rights: c.Rights, Outbox: c.Outbox}),
		tasks:       &tasks.Pages{Broker: b, Shell: sh, Cursors: cursors, Entries: entries, Views: views},
		credentials: &credentials.Pages{Broker: b, Shell: sh, Cursors: cursors, Entries: entries, Views: views},
		auditlog:    &auditlog.Pages{Broker: b, Shell: sh, Cursors: cursors, Entries: entries, Views: views},
		transcripts: &transcripts.Pages{Broker: b, Shell: sh, Cursors: cursors},
		policies:    &policies.Pages{Broker: b, Shell: sh, Proofs: proofs},
		insights:    &insights.Pages{Broker: b, Shell: sh, Now: c.Now},
		breakglass:  &breakglass.Pages{Broker: b, Shell: sh, Proofs: proofs},
		settings: &settings.Pages{
			Broker: b, Shell: sh, Proofs: proofs, Sessions: sessions, Keys: keys, Passkeys: c.Passkeys, Names: c.Names, Reach: c.Reach, Pushes: c.Pushes, Push: c.Push, TellsPeople: c.TellsPeople,
		},
	}
}

// New prepares the console. Register adds its routes to the Mux.
func New(c Config) (*Console, error) {
	if c.Broker == nil || c.Mux == nil || c.Sessions == nil || c.Passkeys == nil || c.Names == nil || c.Reach == nil || c.Rights == nil || c.Outbox == nil || len(c.Key) != 32 {
		return nil, errors.New("console: Broker, Mux, Sessions, Passkeys, Names, Reach, Rights, Outbox and a Key of 32 bytes are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	origin := strings.TrimSuffix(c.Mux.PagesURL(), c.Mux.Base())
	keys, err := passkey.New(origin, c.Key, c.Now)
	if errors.Is(err, passkey.ErrAddress) {
		keys = nil // the host is an IP address, where passkeys do not work
	} else if err != nil {
		return nil, err
	}
	sessions := session.New(session.Config{Broker: c.Broker, Mux: c.Mux, Store: c.Sessions, Methods: c.Methods, Now: c.Now})
	sh, err := shell.New(shell.Config{Broker: c.Broker, Mux: c.Mux, Sessions: sessions, Origin: origin, Key: c.Key, Now: c.Now, Templates: templates, Assets: assets})
	if err != nil {
		return nil, err
	}
	a := newAreas(c, sessions, sh, keys)
	s := &Console{mux: c.Mux, shell: sh, routes: a.listRoutes()}
	return s, sh.Open(shell.Contents{Routes: s.routes, Nav: a.nav(), Funcs: a.funcs(), Banner: a.breakglass.Banner})
}

// Register adds every route to the Mux.
func (s *Console) Register() {
	for _, r := range s.routes {
		s.mux.AddPage(r.Method, r.Path, r.Handler)
	}
	s.mux.Pages(func(c echo.Context, err error) error {
		shell.Headers(c.Response().Header())
		return s.shell.Fail(c, err)
	})
}

// Routes lists method and path of every route, below the public URL's path.
func (s *Console) Routes() []web.Route {
	var out []web.Route
	for _, r := range s.routes {
		out = append(out, r.Route)
	}
	return out
}
