package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/exact"
)

// SSHHosts is what hosts fetch that trust an SSH CA of ebb's, and who connects to them. Errors are
// *broker.Error. What is returned is public.
type SSHHosts interface {
	// Authorities are the CA keys of a provider, a TrustedUserCAKeys file; "" = of
	// the only one.
	Authorities(provider string) ([]byte, error)
	// KRL is the revocation list of a provider (OpenSSH PROTOCOL.krl); "" = of all.
	KRL(ctx context.Context, provider string) ([]byte, error)
	// KnownHosts are the keys of a host of a provider as lines of known_hosts; "" = of the only
	// provider. Who asks knows the host's name: there is no list of them.
	KnownHosts(provider string, host exact.Host) ([]byte, error)
}

// sshCA, sshKRL and sshKnownHosts need no credentials: hosts have none of ebb's, and all
// three are public by nature.
func (a *API) sshCA(c echo.Context) error {
	return a.forHosts(c, "text/plain; charset=utf-8", func(name string) ([]byte, error) { return a.cfg.SSH.Authorities(name) })
}

func (a *API) sshKRL(c echo.Context) error {
	return a.forHosts(c, "application/octet-stream", func(name string) ([]byte, error) { return a.cfg.SSH.KRL(c.Request().Context(), name) })
}

// sshKnownHosts says what a host proves itself with, which it says itself to who connects.
func (a *API) sshKnownHosts(c echo.Context) error {
	q := readQuery(c)
	name, text := q.text("provider"), q.text("host")
	if err := q.done(); err != nil {
		return err
	}
	host, err := exact.ParseHost(text, 22)
	if err != nil {
		return broker.E(broker.Invalid, "host must be the name of a host, with :port where that is not 22.", err)
	}
	if a.cfg.SSH == nil {
		return broker.E(broker.NotFound, "There is no SSH provider.", nil)
	}
	body, err := a.cfg.SSH.KnownHosts(name, host)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "text/plain; charset=utf-8", body)
}

// forHosts answers with a validator, so that asking often costs little. A cache
// may keep the answer but has to ask each time: a list that is a minute old lets
// in what was revoked within it.
func (a *API) forHosts(c echo.Context, contentType string, get func(provider string) ([]byte, error)) error {
	q := readQuery(c)
	name := q.text("provider")
	if err := q.done(); err != nil {
		return err
	}
	if a.cfg.SSH == nil {
		return broker.E(broker.NotFound, "There is no SSH provider.", nil)
	}
	body, err := get(name)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	h := c.Response().Header()
	h.Set("Cache-Control", "public, no-cache")
	h.Set("ETag", tag)
	if c.Request().Header.Get("If-None-Match") == tag {
		return c.NoContent(http.StatusNotModified)
	}
	return c.Blob(http.StatusOK, contentType, body)
}
