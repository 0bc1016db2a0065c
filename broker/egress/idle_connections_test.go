package egress_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress"
)

// Unused connections to upstreams are closed when a sandbox needs their places for its own connections.
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	var together sync.WaitGroup
	together.Add(4)
	b := newBed(t, func(http.ResponseWriter, *http.Request) { together.Done(); together.Wait() })
	b.with(t, func(c *egress.Config) { c.Places = 40 }) // a task may have 8
	x := b.sandbox(t)
	auth := "Bearer " + x.placeholder(t, "stripe:charges:read")
	c := x.client(t, false)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if res, body, err := try(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", auth); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%v %s", err, body)
			}
		})
	}
	wg.Wait()
	for range 4 { // besides the four of c, and those to the upstream
		conn, _ := x.tunnel(t, b.host)
		defer conn.Close()
	}
}
