package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/wire"
)

// Delegation is the part of its task that a sandbox delegates to another
// sandbox.
type Delegation struct {
	Scope     string            // required
	TTL       time.Duration     // 0 = until the sandbox's own task ends
	Uses      int               // number of credentials; required when the sandbox's own task has such a limit
	Depth     int               // number of further delegation levels
	Selectors map[string]string // selectors of the other sandbox, in addition to those that the runner registered
}

// Delegated is the task of the other sandbox, which enrols with the ticket.
type Delegated struct {
	TaskID          string
	Scope           string // covered by the requested scope
	ExpiresAt       time.Time
	Uses            int
	Expect          wire.Expect
	Ticket          secret.Secret // single-use; empty when the other sandbox enrols with other evidence
	TicketExpiresAt time.Time
}

// Delegate delegates a part of this sandbox's task to another sandbox. The
// delegated task ends with this task at the latest.
func (s *Sandbox) Delegate(ctx context.Context, d Delegation) (Delegated, error) {
	f := wire.DelegateForm{Scope: d.Scope, Uses: strconv.Itoa(d.Uses), Depth: strconv.Itoa(d.Depth), RequestedExpiry: expiry(d.TTL)}
	if len(d.Selectors) > 0 {
		text, err := json.Marshal(d.Selectors)
		if err != nil {
			return Delegated{}, fmt.Errorf("client: %w", err)
		}
		f.Selectors = string(text)
	}
	// The scope is parsed before the request, because a task that ebb has opened
	// could not be ended here.
	asked, err := scopes.ParseSet(d.Scope)
	if err != nil {
		return Delegated{}, fmt.Errorf("client: scope: %w", err)
	}
	var ans wire.Delegated
	if err := s.asSandbox(ctx, "/oauth2/delegate", formOf(f), &ans); err != nil {
		return Delegated{}, err
	}
	granted, err := scopes.ParseSet(ans.Scope)
	if err != nil || granted.Empty() || !asked.Covers(granted) {
		return Delegated{}, badAnswer("contains a scope that the requested one does not cover", err)
	}
	if !word(ans.TaskID) || ans.Ticket != "" && !word(ans.Ticket) {
		return Delegated{}, badAnswer("contains no delegated task", nil)
	}
	return Delegated{
		TaskID: ans.TaskID, Scope: ans.Scope, ExpiresAt: ans.ExpiresAt, Uses: ans.Uses, Expect: ans.Expect,
		Ticket: secret.New(ans.Ticket), TicketExpiresAt: ans.TicketExpiresAt,
	}, nil
}
