package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
)

// maxAge is the maximum difference between X-Amz-Date and ebb's clock. AWS itself
// accepts 15 minutes.
const maxAge = time.Minute

// Attestor judges callers from configured AWS accounts.
type Attestor struct {
	cfg       Config
	partition string
	places    map[string]*fetch.Place // by region
}

var (
	_ attest.Challenger = (*Attestor)(nil)
	_ attest.Registrar  = (*Attestor)(nil)
)

// New returns an Attestor. It makes no connections.
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

// Challenge implements attest.Challenger. The challenge is only a nonce. It does not
// contain the issuer or the host, because a client that signs values from a challenge
// could be made to sign for any server.
func (a *Attestor) Challenge(ctx context.Context, e attest.Evidence) (attest.Challenge, error) {
	if err := ctx.Err(); err != nil {
		return attest.Challenge{}, a.failure(err)
	}
	return a.cfg.Nonces.Challenge(a.cfg.Name, e.Key, a.cfg.Now())
}

// Attest implements attest.Attestor. All checks that need no request come before the
// request to STS, so that invalid evidence causes no requests.
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
	// NotAfter counts from the challenge, so that the same evidence always gives the
	// same Identity. Lifetime is a minute or more, so NotAfter is not before the
	// nonce's own expiry.
	notAfter := until.Add(a.cfg.Lifetime - attest.NonceLife)
	return attest.Identity{
		Attestor: a.cfg.Name, Subject: p.UserID, Class: attest.ClassSigned, Selectors: p.selectors(s.Region, a.cfg.EC2Roles),
		NotAfter: notAfter, ReplayID: s.Nonce, ReplayUntil: notAfter, Key: e.Key.JKT,
	}, nil
}

// judgeForm checks the parts of the request before it is sent.
func (a *Attestor) judgeForm(s shown) (authorization, error) {
	at, err := s.signedAt()
	if err != nil {
		return authorization{}, err
	}
	now := a.cfg.Now()
	if now.Sub(at) > maxAge {
		return authorization{}, attest.Reject(attest.ReasonExpired, "x_amz_date is more than a minute in the past; sign a new request, and synchronise the clock", nil)
	}
	if at.Sub(now) > maxAge {
		return authorization{}, attest.Reject(attest.ReasonNotYetValid, "x_amz_date is more than a minute in the future; synchronise the clock", nil)
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
		return authorization{}, attest.Reject(attest.ReasonIssuer, "the region in the credential scope differs from the region of the evidence", nil)
	case auth.date != s.Date[:8]:
		return authorization{}, attest.Reject(attest.ReasonMalformed, "the date in the credential scope differs from the day of x_amz_date", nil)
	case auth.temporary() != (s.Token != "") || auth.signs("x-amz-security-token") != (s.Token != ""):
		return authorization{}, attest.Reject(attest.ReasonMalformed, "temporary credentials need a signed session token, and long-lived credentials must not have one", nil)
	case !auth.temporary() && !a.cfg.AllowUsers:
		return authorization{}, attest.Reject(attest.ReasonType, "the credentials are long-lived; use those of a role", nil)
	}
	return auth, nil
}

// judge returns a rejection unless the configuration accepts the principal that STS
// reported.
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
		return errors.New("attest/aws: this matches every role of the account, because a caller chooses the session name; add arn or user_id, or at least role")
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
