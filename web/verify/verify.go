package verify

import (
	"net/http"
)

// Verify verifies one request. The error is an *Error; send it with WriteError.
func (v *Verifier) Verify(r *http.Request) (*Token, error) {
	t, err := v.verify(r)
	if err != nil {
		return nil, err // not a typed nil
	}
	return t, nil
}

func (v *Verifier) verify(r *http.Request) (*Token, *Error) {
	p, err := present(r)
	if err != nil {
		return nil, err
	}
	now := v.cfg.Now()
	t, err := v.token(r.Context(), p.token, now)
	if err != nil {
		return nil, err
	}
	if err := v.possession(r, p, t, now); err != nil {
		return nil, err
	}
	// As late as possible, so that revocations received while the proof was
	// checked count.
	dead, known := v.revoked.judge(t, v.cfg.Now(), v.cfg.MaxStaleness)
	switch {
	case !known:
		return nil, doubt("The revocation state of the access token is not known at the moment. Try again in 2 s.", nil)
	case dead:
		return nil, refuse(InvalidToken, "The access token was revoked or its task is complete.", nil)
	}
	if err := v.covered(r, p, t); err != nil {
		return nil, err
	}
	return t, nil
}

// covered compares the scopes that the request needs with those of the token.
func (v *Verifier) covered(r *http.Request, p presented, t *Token) *Error {
	if v.cfg.AnyScope {
		return nil
	}
	need, err := v.cfg.RequireScopes(r)
	if err != nil {
		return &Error{Status: http.StatusInternalServerError, Public: "The scopes that this request needs could not be determined.", cause: err}
	}
	if need.Empty() || !t.Scope.Covers(need) {
		e := refuse(InsufficientScope, "The scope of the access token does not cover this request.", nil)
		e.Scope, e.bearer = need, !p.dpop
		return e
	}
	return nil
}
