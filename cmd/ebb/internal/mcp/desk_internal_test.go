package mcp

import (
	"context"
	"strings"
	"testing"
	"time"

	"ebb/broker"
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
	d := newDesk(t.Context(), h, "")
	r := client.TokenRequest{Scope: scopes.MustParseSet("stripe:charges:read")}
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

// answering answers at once and notes what was asked and ended.
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

// TestWhoIsNotTold: a credential that came for somebody who left without being told of it
// has no holder, and is ended once; one that somebody was told of is not.
func TestWhoIsNotTold(t *testing.T) {
	t.Parallel()
	for name, told := range map[string][]bool{"nobody": {false, false}, "one of two": {false, true}, "the first": {true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAnswering()
			d := newDesk(t.Context(), a, "")
			r := client.TokenRequest{Scope: scopes.MustParseSet("stripe:charges:read")}
			f := &flight{question: question{scope: r.Scope.String()}, told: make(chan struct{}), done: make(chan struct{}), callers: len(told)}
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

// TestAnotherTimeIsAnotherQuestion: who asks for a minute does not get what was asked for a
// day.
func TestAnotherTimeIsAnotherQuestion(t *testing.T) {
	t.Parallel()
	a := &held{token: make(chan struct{})}
	d := newDesk(t.Context(), a, "")
	r := client.TokenRequest{Scope: scopes.MustParseSet("stripe:charges:read"), TTL: 24 * time.Hour}
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

// TestManyQuestions: at most maxOpen are under way.
func TestManyQuestions(t *testing.T) {
	t.Parallel()
	a := &held{token: make(chan struct{})}
	d := newDesk(t.Context(), a, "")
	defer close(a.token)
	for i := range maxOpen {
		if _, err := d.ask(client.TokenRequest{Scope: scopes.MustParseSet("stripe:charges:read"), TTL: time.Duration(i+1) * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.ask(client.TokenRequest{Scope: scopes.MustParseSet("stripe:charges:write")}); broker.AsError(err) == nil || broker.AsError(err).Kind != broker.TooMany {
		t.Errorf("one more: %v", err)
	}
}

// TestDeliveryIsAsked: outside of a box the credential itself is asked for, and the command
// says so; what is never handed out is said to be of no use there.
func TestDeliveryIsAsked(t *testing.T) {
	t.Parallel()
	for delivery, want := range map[string]string{"": "proxy of this box", "token": "never handed out"} {
		a := newAnswering()
		d := newDesk(t.Context(), a, delivery)
		f, err := d.ask(client.TokenRequest{Scope: scopes.MustParseSet("stripe:charges:read")})
		if err != nil {
			t.Fatal(err)
		}
		<-f.done
		if r := <-a.asked; r.Delivery != delivery || !strings.Contains(f.outcome.DoNext, want) {
			t.Errorf("%q: asked %q, told %q", delivery, r.Delivery, f.outcome.DoNext)
		}
		out := outcomeOf(client.Credential{Type: "Bearer", Scope: scopes.MustParseSet("gh:acme/web/contents:read")}, question{tool: "gh"}, delivery)
		if got := strings.Join(out.Command, " "); strings.HasSuffix(got, "--delivery token") != (delivery != "") {
			t.Errorf("%q: %s", delivery, got)
		}
	}
}
