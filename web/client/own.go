package client

import (
	"context"
	"net/url"
	"time"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/scopes"
)

// Given is a credential that this sandbox was given for its task, without the
// credential.
type Given struct {
	LeaseID   string            `json:"lease_id"`
	Scope     scopes.Set        `json:"scope"`
	Resource  string            `json:"resource"`
	Tool      string            `json:"tool"`
	State     broker.LeaseState `json:"state"`
	Class     provider.Class    `json:"revocability"`
	IssuedAt  time.Time         `json:"issued_at"`
	ExpiresAt time.Time         `json:"expires_at"`
	RevokedAt time.Time         `json:"revoked_at,omitzero"`
}

// Credentials lists what this sandbox was given for its task, the newest 100 first.
func (s *Sandbox) Credentials(ctx context.Context) ([]Given, error) {
	var ans struct {
		Items []Given `json:"items"`
	}
	if err := s.asSandbox(ctx, "/oauth2/credentials", url.Values{}, &ans); err != nil {
		return nil, err
	}
	for _, g := range ans.Items {
		if !word(g.LeaseID) {
			return nil, badAnswer("names a credential by what is no name", nil)
		}
	}
	return ans.Items, nil
}

// RevokeLease ends a credential of this sandbox by its name on the record. What is
// unknown, somebody else's or dead already is no error, and stays as it is.
func (s *Sandbox) RevokeLease(ctx context.Context, leaseID string) error {
	return s.Revoke(ctx, provider.NewSecret(leaseID))
}

// asSandbox posts a form as this sandbox: with its task token, or with an assertion
// of its key.
func (s *Sandbox) asSandbox(ctx context.Context, path string, form url.Values, out any) error {
	who := s.who.Load()
	switch {
	case !who.TaskToken.Empty():
		c := formCall(path, form, s.key)
		c.scheme, c.token = "DPoP", who.TaskToken
		return s.json(ctx, c, out)
	case who.ClientID != "":
		if err := s.authenticate(form, who.ClientID, s.key, ""); err != nil {
			return err
		}
		return s.form(ctx, path, form, s.key, out)
	}
	return errNotEnrolled
}
