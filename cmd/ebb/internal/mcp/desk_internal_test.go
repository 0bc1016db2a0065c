package mcp

import (
	"context"
	"testing"

	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/web/client"
)

const lease = "lse_0123456789abcdef0123456789abcdef"

// held is a sandbox whose answers come when they are let go.
type held struct {
	Sandbox
	token, revoke, revoking chan struct{}
}

func (h *held) Token(context.Context, client.TokenRequest) (client.Credential, error) {
	<-h.token
	return client.Credential{LeaseID: lease, Format: provider.PlaceholderFormat, Token: provider.Placeholder(lease)}, nil
}

func (h *held) RevokeLease(context.Context, string) error {
	h.revoking <- struct{}{}
	<-h.revoke
	return nil
}

// TestNobodyJoinsWhatIsEnded: while a credential that nobody waits for is ended, who asks
// the same asks anew: the answer would name one that is dead.
func TestNobodyJoinsWhatIsEnded(t *testing.T) {
	t.Parallel()
	h := &held{token: make(chan struct{}), revoke: make(chan struct{}), revoking: make(chan struct{}, 2)}
	d := newDesk(t.Context(), h)
	r := client.TokenRequest{Scope: scopes.MustParseSet("stripe:charges:read")}
	first, err := d.ask(r)
	if err != nil {
		t.Fatal(err)
	}
	d.left(first)
	h.token <- struct{}{}
	<-h.revoking
	second, err := d.ask(r)
	if err != nil || second == first {
		t.Fatalf("it joined what is ended: %v", err)
	}
	close(h.revoke)
	<-first.done
	if third, err := d.ask(r); err != nil || third != second {
		t.Errorf("who is still asking is forgotten: %v", err)
	}
	h.token <- struct{}{}
	<-second.done
	if second.outcome.State != issued {
		t.Errorf("the second has %+v", second.outcome)
	}
}
