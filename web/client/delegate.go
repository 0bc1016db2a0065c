package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/scopes"
)

// Delegation is what a sandbox hands to another one.
type Delegation struct {
	Scope     scopes.Set        // required
	TTL       time.Duration     // 0 = until the own task ends
	Uses      int               // credentials in all; needed when those of the own task are counted
	Depth     int               // how many times in a row it may be delegated on
	Selectors map[string]string // what the other sandbox must be, beyond what the runner expects
}

// Delegated is the task of another sandbox, which enrols with the ticket.
type Delegated struct {
	TaskID          string
	Scope           scopes.Set
	ExpiresAt       time.Time
	Uses            int
	Expect          broker.Expect
	Ticket          provider.Secret // single-use; empty when the other sandbox shows other evidence
	TicketExpiresAt time.Time
}

// Delegate hands a part of this sandbox's task to another sandbox. What it gets is
// over when this task is.
func (s *Sandbox) Delegate(ctx context.Context, d Delegation) (Delegated, error) {
	form := url.Values{}
	set(form, "scope", d.Scope.String())
	if d.TTL > 0 {
		form.Set("requested_expiry", strconv.FormatInt(int64(max(d.TTL/time.Second, 1)), 10))
	}
	form.Set("uses", strconv.Itoa(d.Uses))
	form.Set("depth", strconv.Itoa(d.Depth))
	if len(d.Selectors) > 0 {
		text, err := json.Marshal(d.Selectors)
		if err != nil {
			return Delegated{}, fmt.Errorf("client: %w", err)
		}
		form.Set("selectors", string(text))
	}
	var ans struct {
		TaskID          string        `json:"task_id"`
		Scope           scopes.Set    `json:"scope"`
		ExpiresAt       time.Time     `json:"expires_at"`
		Uses            int           `json:"uses"`
		Expect          broker.Expect `json:"sandbox_expected"`
		Ticket          string        `json:"ticket"`
		TicketExpiresAt time.Time     `json:"ticket_expires_at"`
	}
	if err := s.asSandbox(ctx, "/oauth2/delegate", form, &ans); err != nil {
		return Delegated{}, err
	}
	if !word(ans.TaskID) || !d.Scope.Covers(ans.Scope) || ans.Ticket != "" && !word(ans.Ticket) {
		return Delegated{}, badAnswer("holds no delegated task, or a wider one than was asked for", nil)
	}
	return Delegated{
		TaskID: ans.TaskID, Scope: ans.Scope, ExpiresAt: ans.ExpiresAt, Uses: ans.Uses, Expect: ans.Expect,
		Ticket: provider.NewSecret(ans.Ticket), TicketExpiresAt: ans.TicketExpiresAt,
	}, nil
}
