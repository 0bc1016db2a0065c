package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/wire"
)

const (
	pollInterval   = 5 * time.Second // default of RFC 8628 section 3.5
	pollStep       = 5 * time.Second // added to the interval by each slow_down
	pollLongest    = 5 * time.Minute
	retryTransient = 2 * time.Second
)

// TokenRequest requests one credential. Scope or Details is required, of one
// provider.
type TokenRequest struct {
	Scope    string        // scopes separated by one space
	Details  []wire.Detail // RFC 9396, with any Type; instead of or with Scope; the response has them too
	Resource string        // RFC 8707; "" = the resource of the scopes
	TTL      time.Duration // 0 = chosen by policy; ebb may shorten it
	Tool     string        // name of the tool that needs it
	Reason   string        // shown to approvers; never parsed
	Wait     bool          // wait for the approval when policy requires one
	// Delivery is "token", or "egress" for a placeholder that ebb's egress
	// proxy replaces. "" lets ebb choose.
	Delivery string
	// Content is the id of what a request through egress would have done, as
	// its refusal names it. An approval is then for exactly this.
	Content string
	// PublicKey is the key that the provider certifies, in the provider's
	// format: for ssh, the line of a .pub file.
	PublicKey string
	// Pending, if set, is called once when the request waits for an approval.
	Pending func(Pending)
}

// Credential is an issued token.
type Credential struct {
	Token     secret.Secret
	Type      string // "DPoP" or "Bearer"; "N_A" when it is not an access token
	Format    string // issued_token_type: the type of a Token with Type N_A
	ExpiresAt time.Time
	Scope     string        // as granted, which may be narrower than requested
	Details   []wire.Detail // as granted, when requested with Details
	Resource  string        // resource for which it is valid; "" = chosen by ebb
	LeaseID   string        // its id in the audit log
	Class     wire.Class    // revocability of a third party's credential; "" for tokens of ebb itself
	// Endpoint is the address for sessions that use a placeholder as their
	// password. It is nil for a placeholder for HTTP requests, and when there
	// is no placeholder.
	Endpoint *wire.Endpoint
}

// Token requests a credential. Without Wait a request that needs an approval
// fails with kind AskRequired. With Wait it polls until the request is decided
// or expired, or ctx is done. The same request made again, also after a
// restart, finds the same approval request.
func (s *Sandbox) Token(ctx context.Context, r TokenRequest) (Credential, error) {
	form, err := s.tokenForm(r)
	if err != nil {
		return Credential{}, err
	}
	cred, err := s.ask(ctx, form, r.Resource)
	problem, ok := errors.AsType[*Problem](err)
	if !ok || problem.Kind != wire.KindPending || problem.Pending == nil || problem.Pending.Code.Empty() {
		return cred, err
	}
	if id := problem.Pending.RequestID; id != "" {
		problem.Pending.Page = page(s.issuer, id)
	}
	if r.Pending != nil {
		r.Pending(*problem.Pending)
	}
	if !r.Wait {
		return Credential{}, err
	}
	wait := *problem.Pending
	wait.Interval = max(wait.Interval, problem.RetryAfter)
	return s.poll(ctx, wait, r)
}

// page returns the URL of a request's console page. On loopback the console has
// a secret host name (docs/reference/console.md), so it returns "".
func page(issuer, id string) string {
	u, err := url.Parse(issuer)
	if err != nil || fetch.Loopback(u.Hostname()) {
		return ""
	}
	return issuer + requestPage(id)
}

// requestPage returns the path of a request's page in the console.
func requestPage(id string) string { return "/requests/" + url.PathEscape(id) }

func (s *Sandbox) tokenForm(r TokenRequest) (url.Values, error) {
	if r.Scope == "" && len(r.Details) == 0 {
		return nil, errors.New("client: Scope or Details is required")
	}
	f := wire.TokenForm{
		Scope: r.Scope, Tool: r.Tool, Delivery: r.Delivery, Content: r.Content, PublicKey: r.PublicKey, Reason: r.Reason, RequestedExpiry: expiry(r.TTL),
	}
	if r.Resource != "" {
		f.Resource = []string{r.Resource}
	}
	if len(r.Details) > 0 {
		details := slices.Clone(r.Details)
		for i := range details {
			details[i].Type = wire.DetailType
		}
		text, err := json.Marshal(details)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		f.Details = string(text)
	}
	if r.Wait {
		f.CompletionMode = "deferred"
	}
	who := s.who.Load()
	switch {
	case !who.TaskToken.Empty():
		f.GrantType, f.SubjectTokenType = wire.GrantTokenExchange, wire.TokenTypeTask
		form := formOf(f)
		setSecret(form, "subject_token", who.TaskToken)
		return form, nil
	case who.ClientID != "":
		f.GrantType = wire.GrantClientCredentials
		form := formOf(f)
		return form, s.authenticate(form, who.ClientID, s.key, "")
	}
	return nil, errNotEnrolled
}

func (s *Sandbox) ask(ctx context.Context, form url.Values, resource string) (Credential, error) {
	now := s.now()
	var ans wire.Token
	if err := s.form(ctx, "/oauth2/token", form, s.key, &ans); err != nil {
		return Credential{}, err
	}
	if err := usable(ans); err != nil {
		return Credential{}, err
	}
	return Credential{
		Token: secret.New(ans.AccessToken), Type: ans.TokenType, Format: ans.IssuedTokenType,
		ExpiresAt: now.Add(seconds(ans.ExpiresIn)), Resource: resource, LeaseID: ans.LeaseID,
		Class: ans.Class, Endpoint: ans.Endpoint, Scope: ans.Scope, Details: ans.Details,
	}, nil
}

// Poll waits for the decision on a pending request, at the interval that ebb
// requires. resource is that of the request. While ebb cannot be reached it
// keeps trying until ctx is done or the request has expired.
func (s *Sandbox) Poll(ctx context.Context, p Pending, resource string) (Credential, error) {
	return s.poll(ctx, p, TokenRequest{Resource: resource})
}

// poll repeats no parameter of the request except the public key.
func (s *Sandbox) poll(ctx context.Context, p Pending, r TokenRequest) (Credential, error) {
	if p.Interval <= 0 {
		p.Interval = pollInterval
	}
	var end time.Time
	if p.ExpiresIn > 0 {
		// One interval of grace, so that ebb and not the local clock reports
		// the expiry.
		end = s.now().Add(p.ExpiresIn + p.Interval)
	}
	form := formOf(wire.TokenForm{GrantType: wire.GrantDeferred, PublicKey: r.PublicKey})
	setSecret(form, "deferral_code", p.Code)
	wait := p.Interval
	for trouble := time.Duration(0); ; {
		if err := sleep(ctx, wait); err != nil {
			return Credential{}, fmt.Errorf("client: the request is not decided yet: %w", err)
		}
		cred, err := s.ask(ctx, form, r.Resource)
		problem, answered := errors.AsType[*Problem](err)
		switch {
		case err == nil:
			return cred, nil
		case answered && problem.Kind == wire.KindPending:
			trouble = 0
		case answered && problem.Kind == wire.KindSlowDown:
			trouble = 0
			p.Interval += pollStep
			if problem.Pending != nil {
				p.Interval = max(p.Interval, problem.Pending.Interval)
			}
		case ctx.Err() != nil, answered && !passing(problem), !answered && !errors.Is(err, errUnreachable):
			return Credential{}, err
		default:
			trouble = min(max(2*trouble, retryTransient), pollLongest)
		}
		if !end.IsZero() && s.now().After(end) {
			return Credential{}, err
		}
		wait = max(p.Interval, trouble)
		if answered {
			wait = max(wait, problem.RetryAfter)
		}
		wait = min(wait, pollLongest)
	}
}

// passing reports whether a problem is temporary.
func passing(p *Problem) bool {
	return p.Kind == wire.KindUnavailable || p.Kind == wire.KindTooMany || p.Status == http.StatusBadGateway || p.Status == http.StatusGatewayTimeout
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
