package people

import (
	"context"
	"errors"
	"time"
)

// Session is one browser in which a person has signed in. The database holds only hashes of the
// browser's two secrets, so that a reader of the database cannot use the session.
type Session struct {
	ID     string // hex SHA-256 of the cookie for reading
	Act    string // hex SHA-256 of the cookie for changes
	Person string // id of the principal
	Name   string // display name, from the identity provider or the configuration
	Roles  []string
	Groups []string
	Also   []string // other names of the person
	Method string   // kind of web/signin
	// Purpose is the id of the break-glass plan for which the person signed in again; "" for an
	// ordinary sign-in.
	Purpose string
	ACR     string // strength of the sign-in, as named by the identity provider (OpenID Connect Core section 2)
	Agent   string // User-Agent of the browser, at most 200 code points

	AuthAt    time.Time // time of the authentication
	GroupsAt  time.Time // time of Groups
	CreatedAt time.Time
	SeenAt    time.Time // last used, to the minute
	ExpiresAt time.Time // latest end
}

// ErrNone is wrapped when there is no such session, or no data about a person.
var ErrNone = errors.New("nothing is known of it")

// Reader reads sessions.
type Reader interface {
	// Session returns a session, expired or not: ErrNone.
	Session(ctx context.Context, id string) (Session, error)
	// Sessions returns the sessions of a person, expired or not, the last used first: at most
	// MaxSessions.
	Sessions(ctx context.Context, person string) ([]Session, error)
}

// MaxSessions is the maximum number of listed sessions of a person.
const MaxSessions = 200

// Store stores sessions; replicas share it.
type Store interface {
	Reader
	// AddSession stores a new session, and removes sessions that expired a day ago or earlier.
	AddSession(ctx context.Context, s Session) error
	// SeeSession records a use of the session: ErrNone.
	SeeSession(ctx context.Context, id string, at time.Time) error
	// EndSessions removes the sessions of a person with an id among ids, or all of them without
	// ids, and returns their number.
	EndSessions(ctx context.Context, person string, ids ...string) (int, error)
}
