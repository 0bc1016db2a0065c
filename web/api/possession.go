package api

import (
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"net/http"
	"net/netip"
	"strconv"

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
// Who issued it does not matter here: what is bound to it is bound to its key.
func (a *API) certificate(r *http.Request) (broker.Possession, error) {
	chain, err := a.mux.Proxies().ClientChain(r)
	if err != nil {
		return broker.Possession{}, broker.E(broker.Invalid, "The client certificate was not passed on in a usable form.", err)
	}
	from := a.from(r)
	if len(chain) == 0 {
		return broker.Possession{From: from}, nil
	}
	cert, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return broker.Possession{}, broker.E(broker.Invalid, "The client certificate does not parse.", err)
	}
	jkt, err := jose.Thumbprint(cert.PublicKey)
	if _, is := cert.PublicKey.(ed25519.PublicKey); is && err != nil {
		return broker.Possession{}, broker.E(broker.Invalid, "The Ed25519 key of the client certificate is not canonical or has a small order: anybody can sign for it. Use a newly generated key.", err)
	}
	p := broker.Possession{X5T: web.X5T(chain[0]), From: from}
	p.Key.X5T = p.X5T
	if err == nil {
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

// channel is what the listener saw of the connection, for attestors. Headers of a
// proxy that are no certificates were refused with the proof of the key.
func (a *API) channel(r *http.Request) attest.Channel {
	ch := attest.Channel{RemoteAddr: r.RemoteAddr, TLS: r.TLS != nil, Peer: web.Peer(r.Context())}
	ch.PeerCertificates, _ = a.mux.Proxies().ClientChain(r)
	return ch
}

// from is where a request comes from, to share out what there is for all: the user of
// a local process; else the address, of IPv6 the network of it, since whoever has one
// of those has 2^64 addresses.
func (a *API) from(r *http.Request) string {
	if p := web.Peer(r.Context()); p != nil {
		return "uid " + strconv.FormatUint(uint64(p.UID), 10)
	}
	ip := a.mux.Proxies().ClientIP(r)
	addr, err := netip.ParseAddr(ip)
	if err != nil || addr.Is4() {
		return ip
	}
	return netip.PrefixFrom(addr.WithZone(""), 64).Masked().String()
}
