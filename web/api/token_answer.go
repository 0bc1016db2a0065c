package api

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

// writeToken sends a token response. exchanged reports that the grant was a
// token exchange.
func (a *API) writeToken(c echo.Context, t broker.Token, exchanged bool) error {
	ev := web.EventOf(c)
	ev.LeaseID, ev.RequestID = t.LeaseID, t.RequestID
	body, err := tokenAnswer(t, exchanged)
	if err != nil {
		return err
	}
	web.NoStore(c.Response().Header())
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, body)
}

// tokenAnswer returns the JSON of a wire.Token (RFC 6749 section 5.1, RFC 8693 section 2.2.1, RFC 9396 section 7). It is
// on the path of every mint, so it builds the text itself; a test compares it with wire.Token.
func tokenAnswer(t broker.Token, exchanged bool) ([]byte, error) {
	token := t.Token.Reveal()
	b := make([]byte, 0, len(token)+512)
	b = append(b, `{"access_token":`...)
	b, err := jsontext.AppendQuote(b, token)
	if err != nil {
		return nil, err
	}
	// For every token type except access_token, the response names the type,
	// whatever the grant.
	if t.Format == "" && exchanged {
		t.Format = typeAccessToken
	}
	if t.Format != "" {
		b = append(append(append(b, `,"issued_token_type":"`...), t.Format...), '"')
	}
	b = append(b, `,"token_type":"`...)
	b = append(b, t.Type...)
	b = append(b, `","expires_in":`...)
	b = strconv.AppendInt(b, int64(t.ExpiresIn), 10)
	scope := t.API
	if scope == "" {
		scope = t.Scopes.String()
	}
	b = append(b, `,"scope":"`...)
	b = append(b, scope...) // the scope grammar has no character that JSON escapes
	b = append(b, '"')
	if t.Details != nil {
		details, err := json.Marshal(each(t.Details, wireDetail))
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"authorization_details":`...), details...)
	}
	if t.Endpoint != nil {
		at, err := json.Marshal(wireEndpoint(*t.Endpoint))
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"endpoint":`...), at...)
	}
	if t.Class != "" {
		b = append(append(append(b, `,"revocability":"`...), t.Class...), '"')
	}
	if t.LeaseID != "" {
		b = append(append(append(b, `,"lease_id":"`...), t.LeaseID...), '"')
	}
	return append(b, '}'), nil
}
