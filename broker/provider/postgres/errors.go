package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ebb-broker/ebb/broker/provider"
)

// SQLSTATEs (PostgreSQL's appendix A).
const (
	undefinedObject  = "42704" // no such role
	noPrivilege      = "42501"
	tooManyConns     = "53300"
	dependentObjects = "2BP01" // the role owns or may use something
	badAuthorization = "28000"
	badPassword      = "28P01" // or no such role, or VALID UNTIL has passed
)

func code(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Code
	}
	return ""
}

// judged classifies an error of CREATE ROLE. After an error from the server nothing was made,
// because one statement is one transaction. Without a response the outcome is unknown, and the
// broker keeps a pending revocation.
func judged(err error) error {
	switch code(err) {
	case "":
		return err
	case undefinedObject:
		return provider.Refused("A group role of this scope does not exist in the database any more. Tell the operator of the broker.", err)
	case noPrivilege:
		return provider.Refused("The broker may not make this member of its group role. Tell the operator of the broker: ebb providers check says what is missing.", err)
	case tooManyConns:
		return &provider.BusyError{After: time.Second, Cause: err}
	default:
		return err
	}
}
