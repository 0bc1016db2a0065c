package egress_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
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
		write, ended := p.begins(t, named.Token.Reveal())
		until(t, "the push is sent", p.records(t, audit.EgressAllowed, used.LeaseID, "refs/heads/a"))
		lease := map[string]string{"named": named.LeaseID, "used": used.LeaseID}[revoked]
		if _, err := p.b.Broker.RevokeLease(t.Context(), p.b.Principals[brokertest.Operator], lease, "test"); err != nil {
			t.Fatal(err)
		}
		if revoked == "used" {
			until(t, "the push is disconnected", p.records(t, audit.EgressCompleted, used.LeaseID, `"cut":true`))
		}
		_ = write.Close() // the client waits for its body before it returns
		if err := <-ended; (err == nil) != (revoked == "named") {
			t.Errorf("the %s lease was revoked: %v", revoked, err)
		}
	}
}

// begins sends the beginning of a push that creates refs/heads/a. The rest is written to body. ended
// gets the error of the request.
func (p *pushBed) begins(t *testing.T, placeholder string) (body *io.PipeWriter, ended chan error) {
	t.Helper()
	read, write := io.Pipe()
	t.Cleanup(func() { _ = write.Close() })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.at+"/acme/web.git/git-receive-pack", read)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+placeholder)
	r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	ended = make(chan error, 1)
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
	return write, ended
}

// records returns a function that reports whether the audit log has an entry of a kind and lease with
// text in its data.
func (p *pushBed) records(t *testing.T, kind, leaseID, text string) func() bool {
	return func() bool {
		return slices.ContainsFunc(p.b.uses(t, p.s.Task.ID), func(e audit.Entry) bool {
			return e.Kind == kind && e.LeaseID == leaseID && strings.Contains(string(e.Data), text)
		})
	}
}

// A request that names one lease and is sent by another one is disconnected when that one expires,
// and not when the named one does.
//
//ebb:invariant I4 A request that is sent by another lease than the one it names does not outlive the lease by which it is sent
func TestPushExpiresWithItsLease(t *testing.T) {
	t.Parallel()
	const reads, creates = "gh:acme/web/contents:read", "gh:acme/web/refs/heads/a:create"
	for _, expires := range []string{reads, creates} {
		p := newPushBed(t, `@id("all") @why("all") permit (principal, action, resource);`)
		stays := creates
		if expires == creates {
			stays = reads
		}
		long, err := p.s.Ask(t, stays)
		if err != nil {
			t.Fatal(err)
		}
		p.brief(t, expires, func(short broker.Token) error {
			named, used := long, short
			if expires == reads {
				named, used = short, long
			}
			write, ended := p.begins(t, named.Token.Reveal())
			sent, over := p.records(t, audit.EgressAllowed, used.LeaseID, "refs/heads/a"), p.records(t, audit.EgressDenied, named.LeaseID, "")
			until(t, "the push is sent, or one lease has expired before it", func() bool { return sent() || over() })
			if !sent() {
				_ = write.Close()
				return errors.Join(errors.New("a lease expired too early"), <-ended)
			}
			if expires == creates {
				until(t, "the push is disconnected", p.records(t, audit.EgressCompleted, used.LeaseID, `"cut":true`))
			} else {
				until(t, "the named lease expires", func() bool {
					_, err := p.b.Broker.Use(t.Context(), broker.Caller{TaskID: p.s.Task.ID}, named.LeaseID)
					return err != nil
				})
			}
			_ = write.Close() // the client waits for its body before it returns
			if err := <-ended; (err == nil) != (expires == reads) {
				t.Errorf("the lease for %s has expired: %v", expires, err)
			}
			return nil
		})
	}
}
