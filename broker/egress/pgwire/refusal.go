package pgwire

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"
)

// SQLSTATEs (PostgreSQL's appendix A).
const (
	CannotConnect     = "08001" // sqlclient_unable_to_establish_sqlconnection
	ProtocolViolation = "08P01"
	Unsupported       = "0A000" // feature_not_supported
	NotAuthorized     = "28000" // invalid_authorization_specification
	BadPassword       = "28P01"
	NoDatabase        = "3D000" // invalid_catalog_name
	TooManySessions   = "53300" // too_many_connections
	TooMuch           = "53400" // configuration_limit_exceeded
	NotNow            = "57P03" // cannot_connect_now
)

// Refusal is why a session is not opened: a SQLSTATE, a sentence that says what to do, a reason
// code for programs, and a hint on what to ask for ("" = none). It holds no data from the client.
type Refusal struct {
	Code, Message, Detail, Hint string
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("%s (SQLSTATE %s)", r.Message, r.Code) }

// encode returns a FATAL ErrorResponse, which ends the connection.
func (r *Refusal) encode() ([]byte, error) {
	return (&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}).Encode(nil)
}

func violation(message string) error { return &Refusal{Code: ProtocolViolation, Message: message} }
