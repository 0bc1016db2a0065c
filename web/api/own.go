package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/web"
)

// ownCredential is what a sandbox is told of a credential that it was given: nothing
// of why, and of nobody else.
type ownCredential struct {
	LeaseID   string            `json:"lease_id"`
	Scope     scopes.Set        `json:"scope"`
	Resource  string            `json:"resource,omitempty"`
	Tool      string            `json:"tool,omitempty"`
	State     broker.LeaseState `json:"state"`
	Class     provider.Class    `json:"revocability"`
	IssuedAt  time.Time         `json:"issued_at"`
	ExpiresAt time.Time         `json:"expires_at"`
	RevokedAt time.Time         `json:"revoked_at,omitzero"`
}

type ownCredentials struct {
	Items []ownCredential `json:"items"`
}

// own is POST /oauth2/credentials: a sandbox sees what it was given for its task.
func (a *API) own(c echo.Context) error {
	f, err := readForm(c.Request(), a.mux.BodyLimit())
	if err != nil {
		return err
	}
	s, p, err := a.sandbox(c, f)
	if err != nil {
		return err
	}
	ls, err := a.b.OwnLeases(c.Request().Context(), s, p)
	if err != nil {
		return err
	}
	out := ownCredentials{Items: make([]ownCredential, len(ls))}
	for i, l := range ls {
		web.EventOf(c).TaskID = l.TaskID
		out.Items[i] = ownCredential{
			LeaseID: l.ID, Scope: l.Scopes, Resource: l.Resource, Tool: l.Tool, State: l.State, Class: l.Class,
			IssuedAt: l.IssuedAt, ExpiresAt: l.ExpiresAt, RevokedAt: l.RevokedAt,
		}
	}
	web.NoStore(c.Response().Header())
	return web.WriteJSON(c, http.StatusOK, out)
}
