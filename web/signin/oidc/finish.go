package oidc

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/oauth2"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/signin"
)

// Finish implements signin.Method.
func (o *OIDC) Finish(c echo.Context, h signin.Host) error {
	if c.Request().Method != http.MethodGet {
		return broker.E(broker.NotFound, "This address does not accept forms. Start on the sign-in page.", nil)
	}
	a, err := o.attempt(c)
	// The cookie is deleted, also after a failed sign-in.
	c.SetCookie(&http.Cookie{Name: cookieName, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: -1})
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	s, err := o.provider(ctx)
	if err != nil {
		return err
	}
	code, err := o.code(c.Request().URL, s, a)
	if err != nil {
		return err
	}
	token, err := o.exchange(ctx, s, code, a)
	if err != nil {
		return err
	}
	p, err := o.judge(ctx, s, token, a)
	if err != nil {
		return err
	}
	return h.Welcome(c, p)
}

// answers are the error codes that a provider may return (RFC 6749 section
// 4.1.2.1, OpenID Connect Core section 3.1.2.6). Other codes are not shown,
// because anyone can write them into a link.
var answers = []string{"access_denied", "login_required", "interaction_required", "consent_required", "account_selection_required",
	"invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope", "server_error", "temporarily_unavailable", "unmet_authentication_requirements"}

// code returns the authorization code of the callback, if the callback belongs to this sign-in.
func (o *OIDC) code(u *url.URL, s *source, a attempt) (string, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", errAnswer(err)
	}
	for _, name := range []string{"state", "code", "iss", "error"} {
		if len(q[name]) > 1 {
			return "", errAnswer(fmt.Errorf("%s occurs twice", name))
		}
	}
	switch {
	case !hmac.Equal([]byte(q.Get("state")), []byte(o.derive("state", a.ID))):
		return "", errAnswer(errors.New("the state belongs to another sign-in"))
	case q.Has("iss") && q.Get("iss") != o.cfg.Issuer, s.saysIss && !q.Has("iss"):
		return "", errAnswer(errors.New("iss is not the issuer (RFC 9207)"))
	case q.Has("error"):
		said := q.Get("error")
		if !slices.Contains(answers, said) {
			said = "an unknown error code"
		}
		return "", broker.E(broker.Forbidden, "The identity provider did not sign you in: "+said+". Start again, or ask the provider's administrator.", nil)
	case q.Get("code") == "" || len(q.Get("code")) > 4096:
		return "", errAnswer(errors.New("there is no code"))
	}
	return q.Get("code"), nil
}

func errAnswer(cause error) error {
	return broker.E(broker.Unauthenticated, "The response does not belong to the sign-in that started in this browser. Start again.", cause)
}

// exchange exchanges the code for tokens.
func (o *OIDC) exchange(ctx context.Context, s *source, code string, a attempt) (*oauth2.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, o.client)
	token, err := s.oauth.Exchange(ctx, code, oauth2.VerifierOption(o.derive("verifier", a.ID)))
	if err == nil {
		return token, nil
	}
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok || refused.Response == nil || refused.Response.StatusCode >= 500:
		return nil, errDown(errors.New("the token endpoint does not answer with a token response"))
	case refused.ErrorCode == "invalid_client" || refused.ErrorCode == "unauthorized_client":
		return nil, broker.E(broker.Unavailable, "The identity provider rejected this ebb as a client. Its operator should check console.oidc.client_id and the client secret.", errors.New(refused.ErrorCode))
	}
	// The body is not logged, because it may repeat the request with its secrets.
	return nil, errAnswer(fmt.Errorf("the token endpoint answered %d", refused.Response.StatusCode))
}

// skew is the accepted difference between the provider's clock and ebb's.
const skew = time.Minute
