package client

import (
	"context"
	"net/url"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/wire"
)

// Credentials lists the newest 100 credentials of this sandbox's task, newest
// first.
func (s *Sandbox) Credentials(ctx context.Context) ([]wire.OwnCredential, error) {
	var ans wire.List[wire.OwnCredential]
	if err := s.asSandbox(ctx, "/oauth2/credentials", url.Values{}, &ans); err != nil {
		return nil, err
	}
	for _, g := range ans.Items {
		if !word(g.LeaseID) {
			return nil, badAnswer("contains a credential id with invalid characters", nil)
		}
	}
	return ans.Items, nil
}

// RevokeLease revokes a credential of this sandbox by its lease id. An id that
// is unknown, of another sandbox or already revoked is not an error and has no
// effect.
func (s *Sandbox) RevokeLease(ctx context.Context, leaseID string) error {
	return s.Revoke(ctx, secret.New(leaseID))
}

// asSandbox posts a form as this sandbox: with its task token, or with an
// assertion signed by its key.
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
