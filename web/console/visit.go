package console

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/people"
	"ebb/web"
	"ebb/web/signin"
)

const (
	sessionLife = 8 * time.Hour
	sessionIdle = 30 * time.Minute
	seenEvery   = time.Minute            // a session is not written for each page
	sessionTime = 500 * time.Millisecond // bounds the look at the session of somebody who ends something
	seenAtMost  = 4096                   // sessions that this process remembers
)

// errNobody: no session, or one that ended.
var errNobody = broker.E(broker.Unauthenticated, "You are not signed in, or were signed out because nothing happened for half an hour.", nil)

// visit is one request of somebody who is signed in.
type visit struct {
	broker.Principal
	session people.Session
	now     time.Time
}

// visit finds who is here, and notes that they were. Somebody who ends something is
// known while the database does not answer, too.
func (s *Console) visit(c echo.Context, ends bool) (*visit, error) {
	ctx, cancel := c.Request().Context(), context.CancelFunc(func() {})
	if ends {
		ctx, cancel = context.WithTimeout(ctx, sessionTime)
	}
	defer cancel()
	v, err := s.signedIn(ctx, c)
	if err != nil && ends && broker.AsError(err).Kind == broker.Unavailable {
		return s.remembered(c, err)
	}
	if err == nil && v.now.Sub(v.session.SeenAt) >= seenEvery {
		// That it was used must not keep anybody from using it.
		_ = s.cfg.Sessions.SeeSession(ctx, v.session.ID, v.now)
	}
	return v, err
}

// remembered is who was here last with this cookie, as far as this process knows. Whether
// the session was ended since, only the database knows, so that it is enough to end
// something and for nothing else.
func (s *Console) remembered(c echo.Context, cause error) (*visit, error) {
	found, known := s.lastSeen.Get(hashOf(cookie(c, cookieRead)))
	now := s.cfg.Now()
	if !known || ended(found, now) {
		return nil, cause
	}
	who, err := s.principal(found)
	if err != nil {
		return nil, err
	}
	web.EventOf(c).Actor = who.ID
	return &visit{Principal: who.Doubtful(cause), session: found, now: now}, nil
}

// signedIn finds who is here. It notes nothing: a page that is merely open keeps nobody
// signed in.
func (s *Console) signedIn(ctx context.Context, c echo.Context) (*visit, error) {
	value := cookie(c, cookieRead)
	if value == "" || !s.mux.AtPages(c.Request()) {
		return nil, errNobody
	}
	now := s.cfg.Now()
	found, err := s.cfg.Sessions.Session(ctx, hashOf(value))
	switch {
	case errors.Is(err, people.ErrNone):
		s.lastSeen.Remove(hashOf(value))
		return nil, errNobody
	case err != nil:
		return nil, broker.E(broker.Unavailable, "The database does not answer, so nobody knows who you are. Try again in a moment; `ebb` on the command line may still end things.", err)
	case ended(found, now):
		return nil, errNobody
	}
	who, err := s.principal(found)
	if err != nil {
		return nil, err
	}
	web.EventOf(c).Actor = who.ID
	s.lastSeen.Add(found.ID, found)
	return &visit{Principal: who, session: found, now: now}, nil
}

// ended reports whether a session is over, by itself.
func ended(p people.Session, now time.Time) bool {
	return !now.Before(p.ExpiresAt) || now.Sub(p.SeenAt) >= sessionIdle
}

// principal is who a session makes of a person: what the person was when signing in,
// and, where the configuration names people, still is.
func (s *Console) principal(p people.Session) (broker.Principal, error) {
	who := broker.Principal{ID: p.Person, Groups: p.Groups, Also: p.Also}
	named, known := s.b.Principal(p.Person)
	if p.Method != methodLink {
		// An identity provider must not make somebody a principal that proves itself by a
		// key, and one that is configured no more vouches for nobody.
		by := s.knower(p.Method)
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

// knower is the way in of this name that says what people may do; nil = there is none.
func (s *Console) knower(name string) signin.Knower {
	for _, m := range s.cfg.Methods {
		if k, ok := m.(signin.Knower); ok && m.Name() == name {
			return k
		}
	}
	return nil
}

const methodLink = "link"

// acts reports whether the browser also sent the cookie that another site cannot make
// it send.
func (v *visit) acts(c echo.Context) bool {
	return subtle.ConstantTimeCompare([]byte(hashOf(cookie(c, cookieAct))), []byte(v.session.Act)) == 1
}
