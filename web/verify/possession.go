package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
)

// possession refuses a request without proof of possession of the token's key.
func (v *Verifier) possession(r *http.Request, p presented, t *Token, now time.Time) *Error {
	if t.X5T != "" {
		return v.certificate(r, p, t)
	}
	if !p.dpop {
		return refuse(InvalidToken, "The access token is bound to a DPoP key: send it with the scheme DPoP and a proof.", nil)
	}
	opts := dpop.Options{Algs: v.cfg.DPoPAlgs, Past: v.cfg.DPoPWindow, Future: v.cfg.DPoPWindow}
	if n := v.cfg.Nonces; n != nil {
		opts.Nonce = func(nonce string, now time.Time) bool { return nonce == v.memoryNonce(now) || n.Check(nonce, now) }
	}
	proof, err := dpop.Check(r.Header["Dpop"], dpop.Request{
		Method: r.Method, URL: v.cfg.PublicURL + r.URL.EscapedPath(), AccessToken: p.token, Now: now,
	}, opts)
	if err != nil {
		return proofError(err)
	}
	// Before the claim: an attacker must not use up a proof that the holder
	// still needs.
	if subtle.ConstantTimeCompare([]byte(proof.JKT), []byte(t.JKT)) != 1 {
		return refuse(InvalidToken, "The access token is bound to another key than that of the DPoP proof.", nil)
	}
	if m, is := v.cfg.Replay.(Remembering); is && !m.Memory().Covers(proof) {
		if m.Memory().Nonce == "" {
			return doubt("Replayed DPoP proofs cannot be detected at the moment. Try again in 2 s.", nil)
		}
		return refuse(UseNonce, "This server has just started or lost its list of used DPoP proofs. Make a new proof with the nonce of the DPoP-Nonce header.", nil)
	}
	first, err := v.cfg.Replay.Claim(r.Context(), proof)
	switch {
	case errors.Is(err, ErrBusyKey):
		return &Error{Status: http.StatusTooManyRequests, Public: "Too many requests with one key. Slow down.", RetryAfter: 10 * time.Second, cause: err}
	case err != nil:
		return doubt("Replayed DPoP proofs cannot be detected at the moment. Try again in 2 s.", err)
	case !first:
		return refuse(InvalidProof, "The DPoP proof was used before. Make a new one for each request.", nil)
	}
	return nil
}

// memoryNonce returns the nonce of a recently created replay memory, "" for an
// older one.
func (v *Verifier) memoryNonce(now time.Time) string {
	if m, is := v.cfg.Replay.(Remembering); is && m.Memory().Young(now, v.cfg.DPoPWindow) {
		return m.Memory().Nonce
	}
	return ""
}

// nonce returns the nonce for the client's next proof, "" for none.
func (v *Verifier) nonce() string {
	now := v.cfg.Now()
	if n := v.memoryNonce(now); n != "" {
		return n
	}
	if v.cfg.Nonces != nil {
		return v.cfg.Nonces.Issue(now)
	}
	return ""
}

func proofError(err error) *Error {
	code, public := InvalidProof, "The DPoP proof was refused."
	if errors.Is(err, dpop.ErrNonce) {
		code = UseNonce
	}
	if e, ok := errors.AsType[*dpop.Error](err); ok {
		public = sentence(e.Public)
	}
	return refuse(code, public, err)
}

// certificate checks a certificate-bound token (RFC 8705 section 3). Such
// tokens use the scheme Bearer.
func (v *Verifier) certificate(r *http.Request, p presented, t *Token) *Error {
	fail := func(public string) *Error {
		e := refuse(InvalidToken, public, nil)
		e.bearer = true
		return e
	}
	if p.dpop {
		return fail("The access token is bound to a client certificate: send it with the scheme Bearer.")
	}
	der := v.cfg.ClientCert(r)
	if len(der) == 0 {
		return fail("The access token is bound to a client certificate, and none was sent.")
	}
	sum := sha256.Sum256(der)
	if subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(t.X5T)) != 1 {
		return fail("The access token is bound to another client certificate.")
	}
	return nil
}

func peerCertificate(r *http.Request) []byte {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	return r.TLS.PeerCertificates[0].Raw
}
