package console

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/signin"
)

// visits identifies visitors: sign-in, sessions, passkeys and proofs of
// presence.
type visits struct {
	methods      []signin.Method
	names        people.PasskeyNames
	clock        func() time.Time
	passkeyStore people.PasskeyStore
	reach        people.ReachStore
	sessions     people.Store
	b            *core.Broker
	keys         *passkey.Keys
	known        func() []route
	lastSeen     *expirable.LRU[string, people.Session]
	mux          *web.Mux

	pages    *pages
	requests *requestPages
}

const (
	sessionLife = 8 * time.Hour
	sessionIdle = 30 * time.Minute
	seenEvery   = time.Minute            // the last use of a session is stored at most once in this time
	sessionTime = 500 * time.Millisecond // limits the read of the session for a denial or revocation
	seenAtMost  = 4096                   // sessions cached in this process
)

// errNobody: there is no session, or it has ended.
var errNobody = broker.E(broker.Unauthenticated, "You are not signed in, or your session ended after 30 minutes without activity or at its time limit.", nil)

// visit is one request of a signed-in person.
type visit struct {
	broker.Principal
	session people.Session
	now     time.Time
}

// visit returns the visitor and updates the last use of the session. With ends
// (deny, stop, revoke), a cached session is enough while the database does not
// answer.
func (vs *visits) visit(c echo.Context, ends bool) (*visit, error) {
	ctx, cancel := c.Request().Context(), context.CancelFunc(func() {})
	if ends {
		ctx, cancel = context.WithTimeout(ctx, sessionTime)
	}
	defer cancel()
	v, err := vs.signedIn(ctx, c)
	if err != nil && ends && broker.AsError(err).Kind == broker.Unavailable {
		return vs.remembered(c, err)
	}
	if err == nil && v.now.Sub(v.session.SeenAt) >= seenEvery {
		// An error in storing the last use must not fail the request.
		_ = vs.sessions.SeeSession(ctx, v.session.ID, v.now)
	}
	return v, err
}

// remembered returns the visitor from this process's cache. Only the database
// knows whether the session has ended since. The result is therefore good for a
// denial, stop or revocation only.
func (vs *visits) remembered(c echo.Context, cause error) (*visit, error) {
	found, known := vs.lastSeen.Get(hashOf(cookie(c, cookieRead)))
	now := vs.clock()
	if !known || ended(found, now) {
		return nil, cause
	}
	who, err := vs.principal(found)
	if err != nil {
		return nil, err
	}
	web.EventOf(c).Actor = who.ID
	return &visit{Principal: who.Doubtful(cause), session: found, now: now}, nil
}

// signedIn returns the visitor. It does not update the last use, so that an
// open page does not extend the session.
func (vs *visits) signedIn(ctx context.Context, c echo.Context) (*visit, error) {
	value := cookie(c, cookieRead)
	if value == "" || !vs.mux.AtPages(c.Request()) {
		return nil, errNobody
	}
	now := vs.clock()
	found, err := vs.sessions.Session(ctx, hashOf(value))
	switch {
	case errors.Is(err, people.ErrNone):
		vs.lastSeen.Remove(hashOf(value))
		return nil, errNobody
	case err != nil:
		return nil, broker.E(broker.Unavailable, "The database does not answer, so your session cannot be verified. Try again in a moment. The ebb command line may still be able to stop tasks and revoke credentials.", err)
	case ended(found, now):
		return nil, errNobody
	}
	who, err := vs.principal(found)
	if err != nil {
		return nil, err
	}
	web.EventOf(c).Actor = who.ID
	vs.lastSeen.Add(found.ID, found)
	return &visit{Principal: who, session: found, now: now}, nil
}

// ended reports whether a session has expired or was idle for too long.
func ended(p people.Session, now time.Time) bool {
	return !now.Before(p.ExpiresAt) || now.Sub(p.SeenAt) >= sessionIdle
}

// principal returns the rights of a session: those of the person at sign-in,
// reduced to those that the configuration still grants.
func (vs *visits) principal(p people.Session) (broker.Principal, error) {
	who := broker.Principal{ID: p.Person, Groups: p.Groups, Also: p.Also}
	named, known := vs.b.Principal(p.Person)
	if p.Method != methodLink {
		// An identity provider must not sign in a principal that the
		// configuration names, because that one authenticates with a key. A
		// provider that is no longer configured grants nothing.
		by := vs.knower(p.Method)
		if known || by == nil {
			return broker.Principal{}, errNobody
		}
		named = by.Know(who)
	} else if !known {
		return broker.Principal{}, errNobody
	}
	who.Groups, who.Bounds, who.Within = named.Groups, named.Bounds, named.Within
	for _, r := range p.Roles {
		if named.Has(broker.Role(r)) {
			who.Roles = append(who.Roles, broker.Role(r))
		}
	}
	return who, nil
}

// knower returns the sign-in method with this name that maps people to rights,
// or nil.
func (vs *visits) knower(name string) signin.Knower {
	for _, m := range vs.methods {
		if k, ok := m.(signin.Knower); ok && m.Name() == name {
			return k
		}
	}
	return nil
}

const methodLink = "link"

// acts reports whether the browser also sent the SameSite=Strict cookie, which
// requests from other sites do not carry.
func (v *visit) acts(c echo.Context) bool {
	return subtle.ConstantTimeCompare([]byte(hashOf(cookie(c, cookieAct))), []byte(v.session.Act)) == 1
}

// page returns the route of a page.
func (vs *visits) page(path string, h func(echo.Context, *visit) error) route {
	return route{web.Route{Method: http.MethodGet, Path: path}, vs.pages.guarded(func(c echo.Context) error {
		v, err := vs.visit(c, false)
		if errors.Is(err, errNobody) {
			return vs.toSignIn(c)
		}
		if err != nil {
			return err
		}
		return h(c, v)
	})}
}

// form returns the route of a form that changes state. ends marks forms that
// only deny, stop or revoke; they work while the LiveStore and the database do
// not answer (I6).
func (vs *visits) form(path string, ends bool, h func(echo.Context, *visit) error) route {
	return route{web.Route{Method: http.MethodPost, Path: path}, vs.pages.guarded(func(c echo.Context) error {
		v, err := vs.visit(c, ends)
		if err != nil {
			return err
		}
		if err := vs.pages.gate(c, v, ends); err != nil {
			return err
		}
		return h(c, v)
	})}
}
