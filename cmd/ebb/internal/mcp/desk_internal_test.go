package mcp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

const lease = "lse_0123456789abcdef0123456789abcdef"

// held is a sandbox whose responses wait until the test releases them.
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

// TestNobodyJoinsWhatIsEnded: while an unused credential is being revoked, the
// same request starts anew: its outcome would name a revoked credential.
//
//ebb:invariant I2 The MCP server returns no credential that it is revoking as unused: the same request starts anew
func TestNobodyJoinsWhatIsEnded(t *testing.T) {
	t.Parallel()
	h := &held{token: make(chan struct{}), revoke: make(chan struct{}), revoking: make(chan struct{}, 2)}
	d := newDesk(t.Context(), h, "")
	r := client.TokenRequest{Scope: "stripe:charges:read"}
	first, err := d.ask(r)
	if err != nil {
		t.Fatal(err)
	}
	d.left(first, false)
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

// answering responds at once and records requests and revocations.
type answering struct {
	Sandbox
	asked chan client.TokenRequest
	ended chan string
}

func (a *answering) Token(_ context.Context, r client.TokenRequest) (client.Credential, error) {
	a.asked <- r
	return client.Credential{LeaseID: lease, Format: provider.PlaceholderFormat, Token: provider.Placeholder(lease)}, nil
}

func (a *answering) RevokeLease(_ context.Context, leaseID string) error {
	a.ended <- leaseID
	return nil
}

func newAnswering() *answering {
	return &answering{asked: make(chan client.TokenRequest, maxOpen), ended: make(chan string, maxOpen)}
}

// TestWhoIsNotTold: a credential whose only caller left without the outcome is
// unused, and is revoked once; one whose outcome a caller received is not.
//
//ebb:invariant I2 The MCP server revokes a credential whose last waiting caller left before it received the outcome
func TestWhoIsNotTold(t *testing.T) {
	t.Parallel()
	for name, told := range map[string][]bool{"nobody": {false, false}, "one of two": {false, true}, "the first": {true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAnswering()
			d := newDesk(t.Context(), a, "")
			r := client.TokenRequest{Scope: "stripe:charges:read"}
			f := &flight{question: question{scope: r.Scope}, told: make(chan struct{}), done: make(chan struct{}), callers: len(told)}
			d.open[f.question] = f
			d.fly(f, r)
			taken := false
			for _, one := range told {
				d.left(f, one)
				taken = taken || one
			}
			if !taken {
				if got := <-a.ended; got != lease {
					t.Errorf("ended %q", got)
				}
			}
			if len(a.ended) != 0 {
				t.Error("ended what has a holder, or twice")
			}
		})
	}
}

// TestAnotherTimeIsAnotherQuestion: a request for one minute does not get the
// credential of a request for one day.
//
//ebb:invariant I9 The MCP server does not join calls with different lifetimes, so that a call for a shorter lifetime gets no longer one
func TestAnotherTimeIsAnotherQuestion(t *testing.T) {
	t.Parallel()
	a := &held{token: make(chan struct{})}
	d := newDesk(t.Context(), a, "")
	r := client.TokenRequest{Scope: "stripe:charges:read", TTL: 24 * time.Hour}
	long, err := d.ask(r)
	if err != nil {
		t.Fatal(err)
	}
	same, _ := d.ask(r)
	r.TTL = time.Minute
	short, _ := d.ask(r)
	if same != long || short == long {
		t.Error("the time is no part of the question")
	}
	close(a.token)
	<-long.done
	<-short.done
}

// TestManyQuestions: at most maxOpen requests are in progress.
//
//ebb:invariant I9 The MCP server limits the number of credential requests that are in progress at the same time
func TestManyQuestions(t *testing.T) {
	t.Parallel()
	a := &held{token: make(chan struct{})}
	d := newDesk(t.Context(), a, "")
	defer close(a.token)
	for i := range maxOpen {
		if _, err := d.ask(client.TokenRequest{Scope: "stripe:charges:read", TTL: time.Duration(i+1) * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.ask(client.TokenRequest{Scope: "stripe:charges:write"}); err == nil || refusalOf(err).Error != string(wire.KindTooMany) {
		t.Errorf("one more: %v", err)
	}
}

// TestDeliveryIsAsked: outside of a sandbox of ebb run the credential itself is
// requested, and the command contains that; a credential that is never returned
// is reported as unusable there.
func TestDeliveryIsAsked(t *testing.T) {
	t.Parallel()
	for delivery, want := range map[string]string{"": "proxy of this sandbox", "token": "never returned"} {
		a := newAnswering()
		d := newDesk(t.Context(), a, delivery)
		f, err := d.ask(client.TokenRequest{Scope: "stripe:charges:read"})
		if err != nil {
			t.Fatal(err)
		}
		<-f.done
		if r := <-a.asked; r.Delivery != delivery || !strings.Contains(f.outcome.DoNext, want) {
			t.Errorf("%q: asked %q, told %q", delivery, r.Delivery, f.outcome.DoNext)
		}
		out := outcomeOf(client.Credential{Type: "Bearer", Scope: "gh:acme/web/contents:read"}, question{tool: "gh"}, delivery)
		if got := strings.Join(out.Command, " "); strings.HasSuffix(got, "--delivery token") != (delivery != "") {
			t.Errorf("%q: %s", delivery, got)
		}
	}
}
