package session

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/signin"
)

// Broker is the part of the core that sessions call.
type Broker interface {
	// Principal returns the configured principal with an id.
	Principal(id string) (broker.Principal, bool)
}

// Config holds the dependencies of New.
type Config struct {
	Broker  Broker
	Mux     *web.Mux
	Store   people.Store
	Methods []signin.Method
	Now     func() time.Time
}

// Sessions reads, starts and ends the sessions of people.
type Sessions struct {
	b       Broker
	mux     *web.Mux
	store   people.Store
	methods []signin.Method
	clock   func() time.Time
	// lastSeen caches sessions, so that people can still deny and revoke while
	// the database is unavailable.
	lastSeen *expirable.LRU[string, people.Session]
}

// New returns the sessions in a store.
func New(c Config) *Sessions {
	return &Sessions{b: c.Broker, mux: c.Mux, store: c.Store, methods: c.Methods, clock: c.Now, lastSeen: expirable.NewLRU[string, people.Session](seenAtMost, nil, Life)}
}

// Limits of sessions.
const (
	Life     = 8 * time.Hour
	ReadTime = 500 * time.Millisecond // limits the read of the session for a denial, a revocation or an error page

	idle       = 30 * time.Minute
	seenEvery  = time.Minute // the last use of a session is stored at most once in this time
	seenAtMost = 4096        // sessions cached in this process
)

// MethodLink is the name of the sign-in method by link.
const MethodLink = "link"

// ErrNobody: there is no session, or it has ended.
var ErrNobody = broker.E(broker.Unauthenticated, "You are not signed in, or your session ended after 30 minutes without activity or at its time limit.", nil)

// Visit is one request of a signed-in person.
type Visit struct {
	broker.Principal
	Session people.Session
	Now     time.Time
}

// Acts reports whether the browser also sent the SameSite=Strict cookie, which
// requests from other sites do not carry.
func (v *Visit) Acts(c echo.Context) bool {
	return subtle.ConstantTimeCompare([]byte(HashOf(Cookie(c, CookieAct))), []byte(v.Session.Act)) == 1
}

// Visit returns the visitor and updates the last use of the session. With ends (deny, stop,
// revoke), a cached session is enough while the database does not answer.
func (ss *Sessions) Visit(c echo.Context, ends bool) (*Visit, error) {
	ctx, cancel := c.Request().Context(), context.CancelFunc(func() {})
	if ends {
		ctx, cancel = context.WithTimeout(ctx, ReadTime)
	}
	defer cancel()
	v, err := ss.SignedIn(ctx, c)
	if err != nil && ends && broker.AsError(err).Kind == broker.Unavailable {
		return ss.remembered(c, err)
	}
	if err == nil && v.Now.Sub(v.Session.SeenAt) >= seenEvery {
		// An error in storing the last use must not fail the request.
		_ = ss.store.SeeSession(ctx, v.Session.ID, v.Now)
	}
	return v, err
}

// remembered returns the visitor from this process's cache. Only the database knows whether the
// session has ended since. The result is therefore good for a denial, stop or revocation only.
func (ss *Sessions) remembered(c echo.Context, cause error) (*Visit, error) {
	found, known := ss.lastSeen.Get(HashOf(Cookie(c, CookieRead)))
	now := ss.clock()
	if !known || ended(found, now) {
		return nil, cause
	}
	who, err := ss.Rights(found)
	if err != nil {
		return nil, err
	}
	web.EventOf(c).Actor = who.ID
	return &Visit{Principal: who.Doubtful(cause), Session: found, Now: now}, nil
}

// SignedIn returns the visitor. It does not update the last use, so that an
// open page does not extend the session.
func (ss *Sessions) SignedIn(ctx context.Context, c echo.Context) (*Visit, error) {
	value := Cookie(c, CookieRead)
	if value == "" || !ss.mux.AtPages(c.Request()) {
		return nil, ErrNobody
	}
	now := ss.clock()
	found, err := ss.store.Session(ctx, HashOf(value))
	switch {
	case errors.Is(err, people.ErrNone):
		ss.lastSeen.Remove(HashOf(value))
		return nil, ErrNobody
	case err != nil:
		return nil, broker.E(broker.Unavailable, "The database does not answer, so your session cannot be verified. Try again in a moment. The ebb command line may still be able to stop tasks and revoke credentials.", err)
	case ended(found, now):
		return nil, ErrNobody
	}
	who, err := ss.Rights(found)
	if err != nil {
		return nil, err
	}
	web.EventOf(c).Actor = who.ID
	ss.lastSeen.Add(found.ID, found)
	return &Visit{Principal: who, Session: found, Now: now}, nil
}

// ended reports whether a session has expired or was idle for too long.
func ended(p people.Session, now time.Time) bool {
	return !now.Before(p.ExpiresAt) || now.Sub(p.SeenAt) >= idle
}

// Rights returns the rights of a session: those of the person at sign-in,
// reduced to those that the configuration still grants.
func (ss *Sessions) Rights(p people.Session) (broker.Principal, error) {
	who := broker.Principal{ID: p.Person, Groups: p.Groups, Also: p.Also}
	named, known := ss.b.Principal(p.Person)
	if p.Method != MethodLink {
		// An identity provider must not sign in a principal that the
		// configuration names, because that one authenticates with a key. A
		// provider that is no longer configured grants nothing.
		by := ss.knower(p.Method)
		if known || by == nil {
			return broker.Principal{}, ErrNobody
		}
		named = by.Know(who)
	} else if !known {
		return broker.Principal{}, ErrNobody
	}
	who.Groups, who.Bounds, who.Within = named.Groups, named.Bounds, named.Within
	for _, r := range p.Roles {
		if named.Has(broker.Role(r)) {
			who.Roles = append(who.Roles, broker.Role(r))
		}
	}
	return who, nil
}

// knower returns the sign-in method with this name that maps people to rights, or nil.
func (ss *Sessions) knower(name string) signin.Knower {
	for _, m := range ss.methods {
		if k, ok := m.(signin.Knower); ok && m.Name() == name {
			return k
		}
	}
	return nil
}

// Start stores a new session.
func (ss *Sessions) Start(ctx context.Context, p people.Session) error {
	return ss.store.AddSession(ctx, p)
}

// End ends sessions of a person and returns how many were open.
func (ss *Sessions) End(ctx context.Context, person string, ids ...string) (int, error) {
	for _, id := range ids {
		ss.lastSeen.Remove(id)
	}
	return ss.store.EndSessions(ctx, person, ids...)
}

// Open returns the sessions of the visitor that have not ended.
func (ss *Sessions) Open(ctx context.Context, v *Visit) ([]people.Session, error) {
	list, err := ss.store.Sessions(ctx, v.ID)
	if err != nil {
		return nil, broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	var out []people.Session
	for _, p := range list {
		if !ended(p, v.Now) {
			out = append(out, p)
		}
	}
	return out, nil
}

// ChangePreferences applies change to the preferences of the visitor.
func (v *Visit) ChangePreferences(ctx context.Context, store people.ReachStore, change func(*people.Preferences) error) error {
	err := store.ChangePreferences(ctx, v.ID, change)
	if _, public := errors.AsType[*broker.Error](err); err == nil || public {
		return err
	}
	if errors.Is(err, people.ErrNone) {
		return broker.E(broker.Conflict, "You signed in to an earlier version of ebb, which did not store preferences. Sign out and sign in again.", err)
	}
	return broker.E(broker.Unavailable, "The database does not answer: nothing was changed. Try again in a moment.", err)
}

// Everyone is the list of roles that may sign in.
var Everyone = []broker.Role{broker.RoleViewer, broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner}

// AuditReaders may read and export the audit entries. Approvers see their requests only.
var AuditReaders = []broker.Role{broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner}

// CredentialReaders may list credentials. Viewers among them cannot read the audit entries.
var CredentialReaders = append([]broker.Role{broker.RoleViewer}, AuditReaders...)
