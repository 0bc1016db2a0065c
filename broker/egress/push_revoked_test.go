package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// A request that names one lease and is sent by another one ends with the lease by which it is sent,
// not with the named one.
//
//ebb:invariant I2 A request that is sent by another lease than the one it names ends with the lease by which it is sent
func TestPushEndsWithItsLease(t *testing.T) {
	t.Parallel()
	for _, revoked := range []string{"named", "used"} {
		p := newPushBed(t, `@id("all") @why("all") permit (principal, action, resource);`)
		named, err1 := p.s.Ask(t, "gh:acme/web/contents:read")
		used, err2 := p.s.Ask(t, "gh:acme/web/refs/heads/a:create")
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		body, write := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.at+"/acme/web.git/git-receive-pack", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+named.Token.Reveal())
		r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
		ended := make(chan error, 1)
		go func() {
			res, err := p.client(t, false).Do(r)
			if err == nil {
				_, err = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			ended <- err
		}()
		command := strings.Repeat("0", 40) + " " + strings.Repeat("a", 40) + " refs/heads/a\x00 report-status"
		// A pack of one blob, of which the content is missing.
		if _, err := fmt.Fprintf(write, "%04x%s0000PACK\x00\x00\x00\x02\x00\x00\x00\x01\x35", len(command)+4, command); err != nil {
			t.Fatal(err)
		}
		records := func(kind, text string) func() bool {
			return func() bool {
				return slices.ContainsFunc(p.b.uses(t, p.s.Task.ID), func(e audit.Entry) bool {
					return e.Kind == kind && e.LeaseID == used.LeaseID && strings.Contains(string(e.Data), text)
				})
			}
		}
		until(t, "the push is sent", records(audit.EgressAllowed, "refs/heads/a"))
		lease := map[string]string{"named": named.LeaseID, "used": used.LeaseID}[revoked]
		if _, err := p.b.Broker.RevokeLease(t.Context(), p.b.Principals[brokertest.Operator], lease, "test"); err != nil {
			t.Fatal(err)
		}
		if revoked == "used" {
			until(t, "the push is disconnected", records(audit.EgressCompleted, `"cut":true`))
		}
		_ = write.Close() // the client waits for its body before it returns
		if err := <-ended; (err == nil) != (revoked == "named") {
			t.Errorf("the %s lease was revoked: %v", revoked, err)
		}
	}
}
