package egress

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
)

// judge has the provider read the body of a request, if scopes of the provider limit what bodies
// do. The facts are nil if no body was read. They are returned beside an error, too.
func judge(ctx context.Context, who broker.Caller, use broker.Usable, r *http.Request) (*content.Facts, error) {
	var facts content.Facts
	var reply provider.Reply
	var err error
	if reader, is := use.Injector.(provider.ContentJudge); is {
		facts, reply, err = reader.Judge(ctx, r, use.Target)
	}
	if err == nil {
		err = withinLimits(who, use, r, facts)
	}
	if facts.Kind == "" {
		return nil, judgement(err)
	}
	if !fitsEntry(facts) {
		return nil, judgement(content.Refuse("it does too much for one audit log entry: send several requests"))
	}
	if e, is := errors.AsType[*provider.UncoveredError](err); is {
		e.Content, e.Reply = broker.ContentID(facts), reply
	}
	return &facts, judgement(err)
}

// fitsEntry reports whether an audit log entry has room for facts.
func fitsEntry(f content.Facts) bool {
	text, err := json.Marshal(f)
	return err == nil && len(text) <= content.MaxFacts
}

// judgement returns the Denial for an error of a ContentJudge. Errors of the limits of the body are
// denials already.
func judgement(err error) error {
	var refused *content.Error
	switch {
	case err == nil, errors.As(err, new(*Denial)):
		return err
	case errors.As(err, &refused):
		return deny(BadContent, err)
	case errors.Is(err, provider.ErrElsewhere):
		return deny(NotAllowed, err)
	}
	return deny(Doubt, err)
}

// withinLimits returns an error if the limits of a lease beside its scopes exclude a request: the one
// content that people have approved, or the amounts that its task may spend. Requests that only read,
// such as the first one of a push, have no content.
func withinLimits(who broker.Caller, use broker.Usable, r *http.Request, facts content.Facts) error {
	known := &facts
	if facts.Kind == "" {
		known = nil
	}
	spends, err := use.Spends(who.Root(), known, r.Method)
	if err == nil {
		err = use.Afford(spends)
	}
	if err != nil {
		return &provider.UncoveredError{Needed: use.Target.Scopes, Why: err.Error()}
	}
	return nil
}

// maxOthers bounds the leases that are tried for one request.
const maxOthers = 8

// others are the leases of a caller, beside one that does not cover a request.
type others interface {
	Use(ctx context.Context, c broker.Caller, leaseID string) (broker.Usable, error)
	Injectable(ctx context.Context, c broker.Caller) ([]broker.Lease, error)
}

// another looks for a lease at the provider of the named one that covers a request. dependOn is
// called before a lease is checked, so that no revocation is missed. try returns the request with
// the credential of a lease. The error is the first one with an answer in the request's protocol,
// beginning with refused, which is that of the named lease.
func another(ctx context.Context, of others, who broker.Caller, named broker.Usable, refused error, dependOn func(leaseID string), try func(broker.Usable) (*http.Request, error)) (broker.Usable, *http.Request, error) {
	leases, err := of.Injectable(ctx, who)
	if err != nil {
		return named, nil, err
	}
	tried := 0
	for _, l := range leases {
		if l.Provider != named.Provider || l.ID == named.Target.LeaseID {
			continue
		}
		if tried++; tried > maxOthers {
			break
		}
		dependOn(l.ID)
		use, err := of.Use(ctx, who, l.ID)
		if err != nil {
			continue
		}
		out, err := try(use)
		if err == nil {
			return use, out, nil
		}
		if !replies(refused) && errors.As(err, new(*provider.UncoveredError)) { // it names what the whole request needs
			refused = err
		}
	}
	dependOn(named.Target.LeaseID)
	return named, nil, refused
}

// replies reports whether a refusal has an answer in the request's protocol.
func replies(refused error) bool {
	e, is := errors.AsType[*provider.UncoveredError](refused)
	return is && e.Reply != nil
}

// answerable reads the rest of a body, if the refusal of the request is an answer with status 200:
// clients read such an answer only after they have sent everything.
func answerable(r *http.Request, refused error) error {
	if !replies(refused) || r.Body == nil {
		return refused
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return refused
}
