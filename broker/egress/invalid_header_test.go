package egress_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/static"
)

// twoLines is a provider with a line end in its credential.
type twoLines struct{ *static.Driver }

// Inject implements provider.Injector.
func (d twoLines) Inject(ctx context.Context, r *http.Request, t provider.Target) error {
	err := d.Driver.Inject(ctx, r, t)
	r.Header.Set("Authorization", r.Header.Get("Authorization")+"\r\nX: y")
	return err
}

// A credential that no header can hold is an error of the request, not of the upstream's response.
func TestInvalidHeaderOfAProvider(t *testing.T) {
	t.Parallel()
	b := newBedOn(t, echo, func(c *brokertest.Config) {
		p := c.Providers["stripe"]
		p.Driver = twoLines{p.Driver.(*static.Driver)}
		c.Providers["stripe"] = p
	})
	x := b.sandbox(t)
	auth := "Bearer " + x.placeholder(t, "stripe:charges:read")
	for _, h2 := range []bool{false, true} {
		res, body := send(t, x.client(t, h2), "GET", "https://"+b.host+"/v1/x", "", "Authorization", auth)
		if res.StatusCode != http.StatusServiceUnavailable || strings.Contains(body, "canary") || len(b.arrived()) != 0 {
			t.Errorf("HTTP/2 %t: %s %s", h2, res.Status, body)
		}
	}
	if log := b.log.String(); strings.Count(log, "header Authorization") != 2 || strings.Contains(log, "cannot be parsed") {
		t.Error(log)
	}
}
