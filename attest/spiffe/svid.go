package spiffe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
)

// jwtSVID judges a JWT-SVID. It adds the checks that package jose does not do: it selects
// the keys of the trust domain, and it requires a kid.
func (a *Attestor) jwtSVID(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	u, err := jose.Parse(string(e.Document), jose.Limits{})
	if err != nil {
		return attest.Identity{}, err
	}
	if u.Header().KID == "" {
		return attest.Identity{}, attest.Reject(attest.ReasonKeyUnknown, "the JWT-SVID has no kid", nil)
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
	// Only keys of use jwt-svid of this trust domain are tried.
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

// maxChain is the maximum number of certificates in evidence: a leaf and its path to an
// authority. Usual chains have two or three.
const maxChain = 8

// x509SVID judges the client certificate. The listener accepts any certificate; TLS has
// proved only that the caller has its key.
func (a *Attestor) x509SVID(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	chain, x5t, err := shown(e)
	if err != nil {
		return attest.Identity{}, err
	}
	leaf := chain[0]
	id, err := a.leafID(leaf)
	if err != nil {
		return attest.Identity{}, err
	}
	s, err := a.domain(id)
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "trust domain is configured", s.td.Name())
	chains, err := s.verify(ctx, chain, a.cfg.Now())
	if err != nil {
		return attest.Identity{}, err
	}
	end, err := s.vouchedUntil(chains)
	if err != nil {
		return attest.Identity{}, err
	}
	if !a.cfg.Now().Before(end) { // crypto/x509 accepts a certificate during the second of its NotAfter
		return attest.Identity{}, expired(nil)
	}
	attest.Passed(ctx, "path to an x509-svid authority of the trust domain", x5t)
	attest.Passed(ctx, "not expired", end.Format(time.RFC3339))
	out, err := a.identity(ctx, s, id, svidX509, x5t, end)
	if err != nil {
		return attest.Identity{}, err
	}
	out.MadeAt = leaf.NotBefore
	return out, nil
}

// shown parses the chain, leaf first, and returns it with the x5t#S256 of the leaf.
func shown(e attest.Evidence) (chain []*x509.Certificate, x5t string, err error) {
	certs := e.Channel.PeerCertificates
	if len(certs) == 0 {
		return nil, "", attest.Reject(attest.ReasonMalformed, "there is neither a JWT-SVID nor a client certificate with an X.509-SVID", nil)
	}
	size := 0
	for i, der := range certs {
		if size += len(der); size > attest.MaxDocument || i == maxChain {
			return nil, "", attest.Reject(attest.ReasonOversized, "the certificate chain is too long", nil)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil || slices.ContainsFunc(certs[:i], func(other []byte) bool { return bytes.Equal(other, der) }) {
			return nil, "", attest.Reject(attest.ReasonMalformed, "the certificate chain cannot be parsed, or has a certificate twice", err)
		}
		chain = append(chain, c)
	}
	sum := sha256.Sum256(certs[0])
	x5t = base64.RawURLEncoding.EncodeToString(sum[:])
	if x5t != e.Key.X5T {
		return nil, "", attest.Reject(attest.ReasonKeyBinding, "the X.509-SVID is not the certificate whose key was proved; use the SVID as the client certificate", nil)
	}
	return chain, x5t, nil
}

func expired(cause error) error {
	return attest.Reject(attest.ReasonExpired, "the X.509-SVID or its issuer has expired", cause)
}

// leafID returns the only SPIFFE ID of a leaf that meets the requirements of X509-SVID.
// go-spiffe checks CA, keyCertSign and cRLSign too, but neither digitalSignature nor the
// extended key usages.
func (a *Attestor) leafID(leaf *x509.Certificate) (spiffeid.ID, error) {
	now := a.cfg.Now()
	id, err := x509svid.IDFromCert(leaf) // exactly one URI (section 2)
	if err == nil {
		id, err = parseID(id.String())
	}
	switch {
	case err != nil:
		return id, attest.Reject(attest.ReasonClaims, "the client certificate does not name exactly one SPIFFE ID of a workload", err)
	case leaf.IsCA || leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0: // sections 4.1 and 4.3
		return id, attest.Reject(attest.ReasonType, "the client certificate belongs to an authority and not to a workload", nil)
	case leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0: // section 4.3
		return id, attest.Reject(attest.ReasonType, "the key usage of the client certificate lacks digitalSignature", nil)
	case !forClients(leaf): // section 4.4
		return id, attest.Reject(attest.ReasonType, "the client certificate is not for TLS clients", nil)
	case now.Before(leaf.NotBefore):
		return id, attest.Reject(attest.ReasonNotYetValid, "the X.509-SVID is not valid yet; check the clock of its issuer", nil)
	case leaf.NotAfter.Sub(leaf.NotBefore) > a.cfg.MaxX509Lifetime:
		return id, attest.Reject(attest.ReasonLifetime, "the lifetime of the X.509-SVID is longer than this attestor accepts; issue SVIDs with a shorter lifetime", nil)
	}
	return id, nil
}

func forClients(leaf *x509.Certificate) bool {
	if len(leaf.ExtKeyUsage) == 0 && len(leaf.UnknownExtKeyUsage) == 0 {
		return true
	}
	return slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
}

// verify returns the paths from the leaf to authorities of the trust domain. When the
// authority is unknown, it fetches the bundle again once.
func (s *source) verify(ctx context.Context, chain []*x509.Certificate, now time.Time) ([][]*x509.Certificate, error) {
	b, err := s.bundles.Get(ctx)
	if err != nil {
		return nil, err
	}
	_, chains, err := x509svid.Verify(chain, b.x509, x509svid.WithTime(now))
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		anew, fetchErr := s.bundles.Renew(ctx)
		switch {
		case errors.Is(fetchErr, fetch.ErrNotDue): // the bundle has just been fetched, so the authority does not exist
		case fetchErr != nil:
			return nil, fetchErr
		default:
			_, chains, err = x509svid.Verify(chain, anew.x509, x509svid.WithTime(now))
		}
	}
	if err == nil {
		return chains, nil
	}
	if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is && invalid.Reason == x509.Expired {
		return nil, expired(err)
	}
	return nil, attest.Reject(attest.ReasonSignature, "no authority of the trust domain has issued the X.509-SVID", err)
}

// vouchedUntil returns the latest expiry among the paths. A path is ignored when an
// authority in it has the SPIFFE ID of another trust domain or of a workload (X509-SVID,
// section 3.2).
func (s *source) vouchedUntil(chains [][]*x509.Certificate) (end time.Time, err error) {
	for _, chain := range chains {
		if slices.ContainsFunc(chain[1:], func(c *x509.Certificate) bool { return !s.mayIssue(c) }) {
			continue
		}
		until := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(until) {
				until = c.NotAfter
			}
		}
		if until.After(end) {
			end = until
		}
	}
	if end.IsZero() {
		return end, attest.Reject(attest.ReasonIssuer, "an authority of another trust domain, or no authority at all, has issued the X.509-SVID", nil)
	}
	return end, nil
}

func (s *source) mayIssue(authority *x509.Certificate) bool {
	for _, u := range authority.URIs {
		id, err := spiffeid.FromURI(u)
		if err != nil || id.TrustDomain() != s.td || id.Path() != "" {
			return false
		}
	}
	return true
}
