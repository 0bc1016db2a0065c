package egress_test

import (
	"fmt"
	"net/http"
	"testing"
)

// asked returns the status of a request at GitHub by the lease of a placeholder.
func (p *pushBed) asked(t *testing.T, c *http.Client, what, placeholder string) int {
	t.Helper()
	res, _ := send(t, c, "GET", p.at+"/api/v3/repos/acme/web/"+what, "", "Authorization", "Bearer "+placeholder)
	return res.StatusCode
}

// Eight other leases than the named one are tried for a request, the newest first.
//
//ebb:invariant I12 For one request, egress tries at most eight leases beside the named one
func TestOtherLeasesAreFew(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, `@id("all") @why("all") permit (principal, action, resource);`)
	c := p.client(t, true)
	p.placeholder(t, "gh:acme/web/issues:read")
	named := p.placeholder(t, "gh:acme/web/contents:read")
	for i := range 9 {
		want := http.StatusOK
		if i == 8 {
			want = http.StatusForbidden
		}
		if got := p.asked(t, c, "issues", named); got != want {
			t.Errorf("with %d newer leases: %d, want %d", i, got, want)
		}
		p.placeholder(t, fmt.Sprintf("gh:acme/web/refs/heads/b%d:create", i))
	}
}

// Requests that the named lease does not cover cause queries, which are rate-limited for each sandbox.
// Requests of the named lease are not.
//
//ebb:invariant I12 The queries for other leases than the named one are rate-limited for each sandbox
func TestOtherLeasesAreRateLimited(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, `@id("all") @why("all") permit (principal, action, resource);`)
	c := p.client(t, true)
	used := p.placeholder(t, "gh:acme/web/issues:read")
	named := p.placeholder(t, "gh:acme/web/contents:read")
	limited := false
	for n := 0; n < 2000 && !limited; n++ {
		if n%20 > 0 {
			p.asked(t, c, "pulls", named) // no lease covers it
			continue
		}
		limited = p.asked(t, c, "issues", named) == http.StatusForbidden
	}
	if !limited {
		t.Error("2,000 requests that the named lease does not cover are not limited")
	}
	if got := p.asked(t, c, "issues", used); got != http.StatusOK {
		t.Errorf("by the named lease: %d", got)
	}
	until(t, "another lease is tried again", func() bool { return p.asked(t, c, "issues", named) == http.StatusOK })
}
