package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ebb/attest"
	"ebb/attest/fetch"
)

// maxAge is how far X-Amz-Date may be from ebb's clock, either way. AWS itself
// takes 15 minutes.
const maxAge = time.Minute

// Attestor judges callers of some AWS accounts.
type Attestor struct {
	cfg       Config
	partition string
	places    map[string]*fetch.Place // by region
}

var (
	_ attest.Challenger = (*Attestor)(nil)
	_ attest.Registrar  = (*Attestor)(nil)
)

// New makes an Attestor. It connects to nothing.
func New(c Config) (*Attestor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Fetch.MaxBytes = maxAnswer
	a := &Attestor{cfg: c, partition: partition(c.Regions[0]), places: map[string]*fetch.Place{}}
	for _, r := range c.Regions {
		url := c.Endpoint
		if url == "" {
			url = endpoint(r)
		}
		p, err := fetch.NewPlace(url, c.Fetch)
		if err != nil {
			return nil, fmt.Errorf("attest/aws %q: %w", c.Name, err)
		}
		a.places[r] = p
	}
	return a, nil
}

// Challenge implements attest.Challenger. There is nothing but the nonce: a caller
// that learned issuer or host from whoever challenges it would sign for anybody.
func (a *Attestor) Challenge(ctx context.Context, e attest.Evidence) (attest.Challenge, error) {
	if err := ctx.Err(); err != nil {
		return attest.Challenge{}, a.failure(err)
	}
	return a.cfg.Nonces.Challenge(a.cfg.Name, e.Key, a.cfg.Now())
}

// Attest implements attest.Attestor. All that ebb can judge is judged before STS is
// asked: it must not be one's to bother with garbage.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, a.failure(err)
	}
	s, err := readShown(e.Document)
	if err != nil {
		return attest.Identity{}, err
	}
	until, err := a.cfg.Nonces.Check(s.Nonce, a.cfg.Name, e.Key.JKT, a.cfg.Now())
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "challenge", "")
	auth, err := a.judgeForm(s)
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "signed request", s.Region+" "+auth.accessKey)
	leave, err := attest.Costly(ctx)
	if err != nil {
		return attest.Identity{}, a.failure(err)
	}
	defer leave()
	c, err := a.ask(ctx, s, auth)
	if err != nil {
		return attest.Identity{}, a.failure(err)
	}
	p, err := c.parse(a.partition)
	if err != nil {
		return attest.Identity{}, a.failure(err)
	}
	attest.Passed(ctx, "STS", p.ARN)
	if err := a.judge(ctx, p); err != nil {
		return attest.Identity{}, err
	}
	// From ebb's own clock at the challenge, so that the same evidence says the same.
	// It is not before the nonce's own end: Lifetime is a minute or more.
	notAfter := until.Add(a.cfg.Lifetime - attest.NonceLife)
	return attest.Identity{
		Attestor: a.cfg.Name, Subject: p.UserID, Class: attest.ClassSigned, Selectors: p.selectors(s.Region, a.cfg.EC2Roles),
		NotAfter: notAfter, ReplayID: s.Nonce, ReplayUntil: notAfter, Key: e.Key.JKT,
	}, nil
}

// judgeForm judges the parts of the request before it is sent.
func (a *Attestor) judgeForm(s shown) (authorization, error) {
	at, err := s.signedAt()
	if err != nil {
		return authorization{}, err
	}
	now := a.cfg.Now()
	if now.Sub(at) > maxAge {
		return authorization{}, attest.Reject(attest.ReasonExpired, "the request was signed more than a minute ago, or the clock is slow", nil)
	}
	if at.Sub(now) > maxAge {
		return authorization{}, attest.Reject(attest.ReasonNotYetValid, "the request was signed more than a minute in the future: the clock is fast", nil)
	}
	auth, err := readAuthorization(s.Authorization)
	if err != nil {
		return authorization{}, attest.Reject(attest.ReasonMalformed,
			"authorization is not a Signature Version 4 for sts with host, x-amz-date, x-ebb-issuer and x-ebb-nonce among its signed headers and none that ebb does not send", err)
	}
	switch {
	case a.places[s.Region] == nil:
		return authorization{}, attest.Reject(attest.ReasonIssuer, "the region is not one that is configured for this attestor", nil)
	case auth.region != s.Region:
		return authorization{}, attest.Reject(attest.ReasonIssuer, "the request was signed for another region", nil)
	case auth.date != s.Date[:8]:
		return authorization{}, attest.Reject(attest.ReasonMalformed, "the request was signed for another day than its x_amz_date", nil)
	case auth.temporary() != (s.Token != "") || auth.signs("x-amz-security-token") != (s.Token != ""):
		return authorization{}, attest.Reject(attest.ReasonMalformed, "temporary credentials come with a session token, which is signed, and others without", nil)
	case !auth.temporary() && !a.cfg.AllowUsers:
		return authorization{}, attest.Reject(attest.ReasonType, "the credentials are long-lived; use those of a role", nil)
	}
	return auth, nil
}

// judge says whether a caller that STS vouches for may ask here.
func (a *Attestor) judge(ctx context.Context, p principal) error {
	if !slices.Contains(a.cfg.Accounts, p.Account) {
		return attest.Reject(attest.ReasonClaims, "the AWS account is not one that is configured for this attestor", nil)
	}
	attest.Passed(ctx, "account", p.Account)
	if p.kind != kindRole && !a.cfg.AllowUsers {
		return attest.Reject(attest.ReasonType, "the credentials are a user's; use those of a role", nil)
	}
	attest.Passed(ctx, "kind of caller", p.kind)
	return nil
}

// CheckRegistration implements attest.Registrar.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, found := selectors[n]; return found })
	}
	switch {
	case has("arn", "user_id", "principal_id", "instance_id"):
		return nil
	case !has("role", "user"):
		return errors.New("attest/aws: this fits every role of the account; add role, better arn or user_id. Whoever assumes any role chooses its session")
	case len(a.cfg.Accounts) > 1 && !has("account"):
		return errors.New("attest/aws: another account may have a role of the same name; add account")
	}
	return nil
}

func (a *Attestor) failure(err error) error {
	if errors.Is(err, attest.ErrRejected) {
		return err
	}
	return fmt.Errorf("attest/aws %q: cannot judge: %w", a.cfg.Name, err)
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	names := []string{"account", "arn", "user_id", "principal_id", "role", "session", "instance_id", "region"}
	if a.cfg.AllowUsers {
		names = append(names, "user")
	}
	return names
}
