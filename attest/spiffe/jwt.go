package spiffe

import (
	"context"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// jwtSVID judges a JWT-SVID. What the gate of package jose does not know is here:
// which trust domain's keys, and that the document names its key.
func (a *Attestor) jwtSVID(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	u, err := jose.Parse(string(e.Document), jose.Limits{})
	if err != nil {
		return attest.Identity{}, err
	}
	if u.Header().KID == "" {
		return attest.Identity{}, attest.Reject(attest.ReasonKeyUnknown, "the JWT-SVID does not name its key", nil)
	}
	id, err := parseID(u.Claims().Subject)
	if err != nil {
		return attest.Identity{}, attest.Reject(attest.ReasonClaims, "the subject of the JWT-SVID is not the SPIFFE ID of a workload", err)
	}
	s, err := a.domain(id)
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "trust domain is configured", s.td.Name())
	// Nothing but this trust domain's keys of use jwt-svid is looked at.
	c, err := u.Verify(a.profile, func(h jose.Header) (jose.Key, error) { return s.key(ctx, h) }, a.cfg.Now())
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "type, algorithm, audience and lifetime", strings.Join(c.Audience, " "))
	attest.Passed(ctx, "signature by a jwt-svid key of the trust domain", c.Header.KID)
	jkt, x5t, err := c.Confirmation()
	if err != nil {
		return attest.Identity{}, err
	}
	if x5t != "" && x5t != e.Key.X5T {
		return attest.Identity{}, attest.Reject(attest.ReasonKeyBinding, "the JWT-SVID is bound to another client certificate", nil)
	}
	out, err := a.identity(ctx, s, id, svidJWT, c.Digest(), c.Expiry)
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "not expired", c.Expiry.Format(time.RFC3339))
	out.Key, out.ReplayUntil, out.MadeAt = jkt, c.Expiry.Add(*a.cfg.Leeway), c.Made()
	return out, nil
}
