package api

import (
	"crypto/x509"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"ebb/attest"
	"ebb/attest/dpop"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/web"
)

// possession proves the caller's key once per request: a DPoP proof for this
// very method and URL, or the key of the client certificate. The zero Possession
// means that neither was sent. accessToken is the token the proof must name, ""
// at /oauth2.
//
// Replay is the broker's to refuse, in the store that all replicas share.
func (a *API) possession(c echo.Context, accessToken string) (broker.Possession, error) {
	r := c.Request()
	p, err := a.certificate(r)
	if err != nil {
		return broker.Possession{}, err
	}
	a.offerNonce(c)
	header := r.Header["Dpop"]
	if len(header) == 0 {
		return p, nil
	}
	now := a.cfg.Now()
	opts := dpop.Options{Algs: a.b.DPoPAlgs(), Headers: a.proofs}
	if n := a.b.Nonces(); n != nil {
		opts.Nonce = n.Check
	}
	proof, err := dpop.Check(header, dpop.Request{Method: r.Method, URL: a.origin + r.URL.EscapedPath(), AccessToken: accessToken, Now: now}, opts)
	if err != nil {
		return broker.Possession{}, proofError(err)
	}
	p.Proof = &proof
	p.Key.JKT, p.Key.Public = proof.JKT, proof.Public
	return p, nil
}

// certificate is what the client certificate proves: TLS made the client sign
// with its key (RFC 8705 section 2). Evidence that names a key may name that one.
func (a *API) certificate(r *http.Request) (broker.Possession, error) {
	der, err := a.mux.Proxies().ClientCert(r)
	if err != nil {
		return broker.Possession{}, broker.E(broker.Invalid, "The client certificate was not passed on in a usable form.", err)
	}
	if der == nil {
		return broker.Possession{}, nil
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return broker.Possession{}, broker.E(broker.Invalid, "The client certificate does not parse.", err)
	}
	p := broker.Possession{X5T: web.X5T(der)}
	p.Key.X5T = p.X5T
	if jkt, err := jose.Thumbprint(cert.PublicKey); err == nil {
		p.Key.JKT, p.Key.Public = jkt, cert.PublicKey
	}
	return p, nil
}

// offerNonce sends a fresh nonce with every answer of an endpoint that takes
// proofs, good or bad, exactly once (RFC 9449 section 8.2).
func (a *API) offerNonce(c echo.Context) {
	if n := a.b.Nonces(); n != nil {
		c.Response().Header().Set("DPoP-Nonce", n.Issue(a.cfg.Now()))
	}
}

func proofError(err error) error {
	kind, public := broker.InvalidProof, "The DPoP proof was refused."
	if errors.Is(err, dpop.ErrNonce) {
		kind = broker.UseNonce
	}
	if e, ok := errors.AsType[*dpop.Error](err); ok {
		public = upperFirst(e.Public) + "."
	}
	return broker.E(kind, public, err)
}

func upperFirst(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

// channel is what the listener saw of the connection, for attestors.
func (a *API) channel(r *http.Request) attest.Channel {
	ch := attest.Channel{RemoteAddr: r.RemoteAddr, TLS: r.TLS != nil}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		for _, cert := range r.TLS.VerifiedChains[0] {
			ch.PeerCertificates = append(ch.PeerCertificates, cert.Raw)
		}
	}
	return ch
}
