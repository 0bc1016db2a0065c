package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/wire"
)

// SignInLink returns a link that signs this principal in to the console. It
// works once, until a time about 2 minutes from now, and opens the page of a request;
// requestID "" opens the queue. Only an ebb on loopback makes links.
func (o *Operator) SignInLink(ctx context.Context, requestID string) (link secret.Secret, until time.Time, err error) {
	var ans wire.SignInLink
	if err := o.session.do(ctx, http.MethodPost, "/v1/signin-link", nil, nil, &ans); err != nil {
		return secret.Secret{}, time.Time{}, err
	}
	u, err := url.Parse(ans.URL)
	if err != nil || u.Host == "" || !word(ans.URL) {
		return secret.Secret{}, time.Time{}, badAnswer("contains no link", err)
	}
	if requestID != "" {
		q := u.Query()
		q.Set("to", requestPage(requestID))
		u.RawQuery = q.Encode()
	}
	return secret.New(u.String()), ans.ExpiresAt, nil
}
