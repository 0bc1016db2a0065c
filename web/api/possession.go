package api

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

// clientAuth authenticates callers: by a DPoP proof, a client certificate, an assertion or evidence.
type clientAuth struct {
	clock   func() time.Time
	b       authBroker
	methods []attest.ClientMethod
	mux     *web.Mux
	proxies web.Proxies
	origin  string
	proofs  *jose.Headers

	discovery *discovery
}

// authBroker is the part of the broker that clientAuth calls.
type authBroker interface {
	AuthenticateToken(ctx context.Context, token string, p broker.Possession) (broker.Principal, error)
	AuthenticateAssertion(ctx context.Context, assertion string, clientID string, proved broker.Possession) (broker.Principal, error)
	Nonce(now time.Time) string
	NonceCheck() func(nonce string, now time.Time) bool
	CheckNonce(p broker.Possession) error
}

// possession verifies the caller's key, once per request: a DPoP proof for this
// method and URL, or the key of the client certificate. The zero Possession
// means that the request had neither. accessToken is the token that the proof
// must name; "" at /oauth2.
//
// The broker detects replays, in the store that all replicas share.
func (ca *clientAuth) possession(c echo.Context, accessToken string) (broker.Possession, error) {
	r := c.Request()
	p, err := ca.certificate(r)
	if err != nil {
		return broker.Possession{}, err
	}
	ca.offerNonce(c)
	header := r.Header["Dpop"]
	if len(header) == 0 {
		return p, nil
	}
	now := ca.clock()
	opts := dpop.Options{Algs: ca.discovery.dpopAlgs, Headers: ca.proofs, Nonce: ca.b.NonceCheck()}
	proof, err := dpop.Check(header, dpop.Request{Method: r.Method, URL: ca.origin + r.URL.EscapedPath(), AccessToken: accessToken, Now: now}, opts)
	if err != nil {
		return broker.Possession{}, ca.proofError(err)
	}
	p.Proof = &proof
	p.Key.JKT, p.Key.Public = proof.JKT, proof.Public
	return p, ca.b.CheckNonce(p)
}

// certificate returns the key of the client certificate. TLS made the client
// sign with that key (RFC 8705 section 2). Evidence that names a key may name
// this one. The issuer of the certificate does not matter: tokens are bound to
// the key.
func (ca *clientAuth) certificate(r *http.Request) (broker.Possession, error) {
	chain, err := ca.proxies.ClientChain(r)
	if err != nil {
		return broker.Possession{}, broker.E(broker.Invalid, "The proxy forwarded the client certificate in a form that ebb cannot parse.", err)
	}
	from := ca.from(r)
	if len(chain) == 0 {
		return broker.Possession{From: from}, nil
	}
	cert, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return broker.Possession{}, broker.E(broker.Invalid, "The client certificate cannot be parsed.", err)
	}
	jkt, err := jose.Thumbprint(cert.PublicKey)
	if _, is := cert.PublicKey.(ed25519.PublicKey); is && err != nil {
		return broker.Possession{}, broker.E(broker.Invalid, "The Ed25519 key of the client certificate is not canonical or has a small order: signatures by it can be forged. Use a newly generated key.", err)
	}
	p := broker.Possession{X5T: web.X5T(chain[0]), From: from}
	p.Key.X5T = p.X5T
	if err == nil {
		p.Key.JKT, p.Key.Public = jkt, cert.PublicKey
	}
	return p, nil
}

// offerNonce adds a new nonce to every response of an endpoint that takes
// proofs, including errors, exactly once (RFC 9449 section 8.2).
func (ca *clientAuth) offerNonce(c echo.Context) {
	if n := ca.b.Nonce(ca.clock()); n != "" {
		c.Response().Header().Set("DPoP-Nonce", n)
	}
}

// proofError returns the error for a refused proof. For a proof of another URL it names the configured one, never that
// of the request.
func (ca *clientAuth) proofError(err error) error {
	kind, public := broker.InvalidProof, "The DPoP proof was refused."
	if errors.Is(err, dpop.ErrNonce) {
		kind = broker.UseNonce
	}
	if e, ok := errors.AsType[*dpop.Error](err); ok {
		public = strings.ToUpper(e.Public[:1]) + e.Public[1:] + "."
		if e.Reason == dpop.ReasonURL {
			public += " Its htu must be the URL of the request at " + ca.discovery.issuer + "."
			return &broker.Error{Kind: kind, Public: public, Cause: err, Next: []string{"call this ebb by its public URL: --url " + ca.discovery.issuer}}
		}
	}
	return broker.E(kind, public, err)
}

// channel describes the connection for attestors. An unusable certificate
// header of a proxy was refused before, by possession.
func (ca *clientAuth) channel(r *http.Request) attest.Channel {
	ch := attest.Channel{RemoteAddr: r.RemoteAddr, TLS: r.TLS != nil, Peer: web.Peer(r.Context())}
	ch.PeerCertificates, _ = ca.proxies.ClientChain(r)
	return ch
}

// from returns the origin of a request, by which rate limits are shared: the
// user of a local process, or else the IP address. For IPv6 it is the /64
// network, because one client usually has 2^64 addresses.
func (ca *clientAuth) from(r *http.Request) string {
	if p := web.Peer(r.Context()); p != nil {
		return "uid " + strconv.FormatUint(uint64(p.UID), 10)
	}
	ip := ca.proxies.ClientIP(r)
	addr, err := netip.ParseAddr(ip)
	if err != nil || addr.Is4() {
		return ip
	}
	return netip.PrefixFrom(addr.WithZone(""), 64).Masked().String()
}
