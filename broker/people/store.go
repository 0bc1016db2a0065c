package people

import (
	"context"
	"errors"
	"time"
)

// ErrNone is wrapped when there is no such session, or nothing is known of a person.
var ErrNone = errors.New("nothing is known of it")

// Reader looks sessions up.
type Reader interface {
	// Session returns one, ended or not: ErrNone.
	Session(ctx context.Context, id string) (Session, error)
	// Sessions returns those of a person, ended or not, the last used first: at most MaxSessions.
	Sessions(ctx context.Context, person string) ([]Session, error)
}

// MaxSessions is how many sessions of a person are listed.
const MaxSessions = 200

// Store keeps sessions; replicas share it.
type Store interface {
	Reader
	// AddSession keeps a new one, and forgets those that ended a day ago or more.
	AddSession(ctx context.Context, s Session) error
	// SeeSession notes that it was used: ErrNone.
	SeeSession(ctx context.Context, id string, at time.Time) error
	// EndSessions removes those with an id among ids, or all of a person when there
	// are no ids, and says how many there were.
	EndSessions(ctx context.Context, person string, ids ...string) (int, error)
}
