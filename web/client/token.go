package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/scopes"
)

const (
	grantExchange  = "urn:ietf:params:oauth:grant-type:token-exchange"
	grantDeferred  = "urn:ietf:params:oauth:grant-type:deferred"
	typeTaskToken  = "urn:ebb:params:oauth:token-type:task"
	pollInterval   = 5 * time.Second // RFC 8628 section 3.5, when the server names none
	pollStep       = 5 * time.Second // what slow_down adds for good
	pollLongest    = 5 * time.Minute
	retryTransient = 2 * time.Second
)

// TokenRequest asks for one credential. Scope or Details is required, of one
// provider.
type TokenRequest struct {
	Scope    scopes.Set
	Details  []scopes.Detail // RFC 9396, instead of or with Scope; the answer has them too
	Resource string          // RFC 8707; "" = the one that the scopes belong to
	TTL      time.Duration   // 0 = as policy says; ebb may shorten it
	Tool     string          // name of the tool that needs it
	Reason   string          // shown to the person who decides; never parsed
	Wait     bool            // wait for a person when policy wants one
	// Delivery is how it gets to where it is used: "token", or "egress" for a placeholder
	// that ebb's egress proxy knows; "" = as ebb finds best.
	Delivery string
	// PublicKey is what the provider is to certify, in its own format: for ssh, the
	// line of a .pub file.
	PublicKey string
	// Pending, when set, is called once when a person has been asked.
	Pending func(Pending)
}

// Credential is an issued token.
type Credential struct {
	Token     provider.Secret
	Type      string // "DPoP" or "Bearer"; "N_A" when it is no access token
	Format    string // issued_token_type: what a Token of type N_A is
	ExpiresAt time.Time
	Scope     scopes.Set      // what was granted, which may be less than asked
	Details   []scopes.Detail // when asked with them
	Resource  string          // where it may be used; "" when ebb chose and did not say
	LeaseID   string          // its name on the record
	Class     provider.Class  // how a third party's credential can be taken back; "" for ebb's own tokens
	// Endpoint is where a placeholder opens sessions, as their password; nil = it is none, or
	// for requests.
	Endpoint *provider.Endpoint
}

// Token asks for a credential. Without Wait a request that needs a person fails
// with kind AskRequired; with Wait it polls until the person has decided, the
// request has expired, or ctx is done. Asking the same again, also after a
// restart, finds the same request.
func (s *Sandbox) Token(ctx context.Context, r TokenRequest) (Credential, error) {
	form, err := s.tokenForm(r)
	if err != nil {
		return Credential{}, err
	}
	cred, err := s.ask(ctx, form, r.Resource)
	problem, ok := errors.AsType[*Problem](err)
	if !ok || problem.Kind != broker.Pending || problem.Pending == nil || problem.Pending.Code.Empty() {
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

// page is where people decide a request. On loopback the console has a name of its own that
// nobody is told (docs/console.md), so nothing is said.
func page(issuer, id string) string {
	u, err := url.Parse(issuer)
	if err != nil || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback() {
		return ""
	}
	return issuer + "/requests/" + url.PathEscape(id)
}

func (s *Sandbox) tokenForm(r TokenRequest) (url.Values, error) {
	if r.Scope.Empty() && len(r.Details) == 0 {
		return nil, errors.New("client: say which scope the token is for")
	}
	form := url.Values{}
	who := s.who.Load()
	switch {
	case !who.TaskToken.Empty():
		form.Set("grant_type", grantExchange)
		form.Set("subject_token_type", typeTaskToken)
		setSecret(form, "subject_token", who.TaskToken)
	case who.ClientID != "":
		form.Set("grant_type", "client_credentials")
		if err := s.authenticate(form, who.ClientID, s.key, ""); err != nil {
			return nil, err
		}
	default:
		return nil, errNotEnrolled
	}
	set(form, "scope", r.Scope.String())
	set(form, "resource", r.Resource)
	set(form, "tool", r.Tool)
	set(form, "delivery", r.Delivery)
	set(form, "public_key", r.PublicKey)
	set(form, "reason", r.Reason)
	if len(r.Details) > 0 {
		text, err := json.Marshal(r.Details)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		form.Set("authorization_details", string(text))
	}
	if r.TTL > 0 {
		form.Set("requested_expiry", strconv.FormatInt(int64(max(r.TTL/time.Second, 1)), 10))
	}
	if r.Wait {
		form.Set("completion_mode", "deferred")
	}
	return form, nil
}

func (s *Sandbox) ask(ctx context.Context, form url.Values, resource string) (Credential, error) {
	now := s.now()
	var ans tokenAnswer
	if err := s.form(ctx, "/oauth2/token", form, s.key, &ans); err != nil {
		return Credential{}, err
	}
	if err := ans.check(); err != nil {
		return Credential{}, err
	}
	c := Credential{
		Token: provider.NewSecret(ans.AccessToken), Type: ans.TokenType, Format: ans.Format,
		ExpiresAt: now.Add(seconds(ans.ExpiresIn)), Resource: resource, LeaseID: ans.LeaseID,
		Class: ans.Class, Endpoint: ans.Endpoint,
	}
	var err error
	if c.Scope, err = scopes.ParseSet(ans.Scope); err != nil {
		return Credential{}, badAnswer("names a scope that cannot be read", err)
	}
	if len(ans.Details) > 0 {
		if c.Details, err = scopes.ParseDetails(ans.Details); err != nil {
			return Credential{}, badAnswer("has authorization_details that cannot be read", err)
		}
	}
	return c, nil
}

// Poll waits for the decision on a pending request, at the pace that ebb asks
// for. resource is the one of the request. When ebb is out of reach it keeps
// trying until ctx is done or the request has expired.
func (s *Sandbox) Poll(ctx context.Context, p Pending, resource string) (Credential, error) {
	return s.poll(ctx, p, TokenRequest{Resource: resource})
}

// poll repeats nothing of the request but the key to be certified.
func (s *Sandbox) poll(ctx context.Context, p Pending, r TokenRequest) (Credential, error) {
	if p.Interval <= 0 {
		p.Interval = pollInterval
	}
	var end time.Time
	if p.ExpiresIn > 0 {
		// One interval of grace, so that ebb and not this clock says it expired.
		end = s.now().Add(p.ExpiresIn + p.Interval)
	}
	form := url.Values{"grant_type": {grantDeferred}}
	setSecret(form, "deferral_code", p.Code)
	set(form, "public_key", r.PublicKey)
	wait := p.Interval
	for trouble := time.Duration(0); ; {
		if err := sleep(ctx, wait); err != nil {
			return Credential{}, fmt.Errorf("client: nobody has decided yet: %w", err)
		}
		cred, err := s.ask(ctx, form, r.Resource)
		problem, answered := errors.AsType[*Problem](err)
		switch {
		case err == nil:
			return cred, nil
		case answered && problem.Kind == broker.Pending:
			trouble = 0
		case answered && problem.Kind == broker.SlowDown:
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

// passing reports problems that go away by themselves.
func passing(p *Problem) bool {
	return p.Kind == broker.Unavailable || p.Kind == broker.TooMany || p.Status == http.StatusBadGateway || p.Status == http.StatusGatewayTimeout
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
