package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// SSHHosts returns the data for hosts that trust an SSH CA of ebb, and for
// clients that connect to them. Errors are *broker.Error. All data is public.
type SSHHosts interface {
	// Authorities returns the CA keys of a provider as a TrustedUserCAKeys
	// file. "" means the only provider.
	Authorities(provider string) ([]byte, error)
	// KRL returns the revocation list of a provider (OpenSSH PROTOCOL.krl). ""
	// means one list for all providers.
	KRL(ctx context.Context, provider string) ([]byte, error)
	// KnownHosts returns the keys of a host of a provider as lines of
	// known_hosts. "" means the only provider. The caller must know the host's
	// name: there is no list of hosts.
	KnownHosts(provider string, host stricturl.Host) ([]byte, error)
}

// sshCA, sshKRL and sshKnownHosts need no credentials: hosts have none for ebb,
// and the data is public.
func (d *discovery) sshCA(c echo.Context) error {
	return d.forHosts(c, "text/plain; charset=utf-8", func(name string) ([]byte, error) { return d.ssh.Authorities(name) })
}

func (d *discovery) sshKRL(c echo.Context) error {
	return d.forHosts(c, "application/octet-stream", func(name string) ([]byte, error) { return d.ssh.KRL(c.Request().Context(), name) })
}

// sshKnownHosts returns the keys of a host, which the host also sends to
// everyone who connects.
func (d *discovery) sshKnownHosts(c echo.Context) error {
	q := readQuery(c)
	name, text := q.text("provider"), q.text("host")
	if err := q.done(); err != nil {
		return err
	}
	host, err := stricturl.ParseHost(text, 22)
	if err != nil {
		return broker.E(broker.Invalid, "host must be a host name, with :port if the port is not 22.", err)
	}
	if d.ssh == nil {
		return broker.E(broker.NotFound, "This ebb has no SSH provider.", nil)
	}
	body, err := d.ssh.KnownHosts(name, host)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "text/plain; charset=utf-8", body)
}

// forHosts responds with an ETag, so that polling costs little. A cache may
// store the response but must revalidate it each time: with a revocation list
// that is 1 min old, a host accepts certificates revoked in that minute.
func (d *discovery) forHosts(c echo.Context, contentType string, get func(provider string) ([]byte, error)) error {
	q := readQuery(c)
	name := q.text("provider")
	if err := q.done(); err != nil {
		return err
	}
	if d.ssh == nil {
		return broker.E(broker.NotFound, "This ebb has no SSH provider.", nil)
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
