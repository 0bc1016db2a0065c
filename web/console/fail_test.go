package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestErrorsByRole: the page of an error leads each role to pages that it may
// see, and names the roles of a person who lacks one.
func TestErrorsByRole(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	for _, tt := range []struct {
		who, path string
		status    int
		says, not []string
	}{
		{brokertest.Auditor, "/credentials/lse_" + strings.Repeat("0", 32), http.StatusNotFound, []string{`<a href="/credentials">Credentials</a>`, `<a href="/audit">Audit log</a>`}, []string{`<li><a href="/queue">Queue</a></li>`, "with the role"}},
		{brokertest.Operator, "/nowhere", http.StatusNotFound, []string{`<li><a href="/tasks">Tasks</a></li>`, `<li><a href="/settings">Settings</a></li>`}, []string{"Try again"}},
		{brokertest.Approver, "/insights", http.StatusForbidden, []string{`<li><a href="/queue">Queue</a></li>`, "with the role approver."}, []string{`href="/insights"`, `href="/audit"`}},
		{brokertest.Auditor, "/credentials.csv?state=gone", http.StatusBadRequest, []string{`<a href="/credentials">Credentials</a>`}, nil},
		{"", "/nowhere", http.StatusNotFound, []string{`<a href="/signin">Sign in</a>`}, []string{"/queue", "with the role"}},
	} {
		b := h.browser()
		if tt.who != "" {
			b = h.as(tt.who)
		}
		a := b.get(tt.path)
		a.is(t, tt.status, tt.says...)
		_, main, _ := strings.Cut(a.body, "<main")
		for _, not := range tt.not {
			if strings.Contains(main, not) {
				t.Errorf("%s as %q: the page says %q: %s", tt.path, tt.who, not, main)
			}
		}
	}
	b := h.as(brokertest.Auditor)
	h.Store.Close()
	b.get("/tasks?state=open").is(t, http.StatusServiceUnavailable, `<a href="/tasks?state=open">Try again</a>`)
}

// TestSortedHeadings: the headings of a list sort it on the server, keep the
// filter, and state the order.
func TestSortedHeadings(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Auditor)
	s := h.Open(t, brokertest.Spec())
	for _, scope := range []string{"orders:eu/1:read", "orders:eu/2:read"} {
		if _, err := s.Ask(t, scope); err != nil {
			t.Fatal(err)
		}
	}
	b.get("/credentials?provider=orders").is(t, http.StatusOK, `aria-sort="descending"><a class="sort" href="/credentials?provider=orders&amp;sort=oldest">Issued</a>`, `<a class="sort" href="/credentials?provider=orders&amp;sort=ending">Planned end</a>`)
	b.get("/credentials?provider=orders&sort=oldest").is(t, http.StatusOK, `aria-sort="ascending"><a class="sort" href="/credentials?provider=orders&amp;sort=newest">Issued</a>`)
	b.get("/credentials?sort=ending").is(t, http.StatusOK, `aria-sort="ascending"><a class="sort" href="/credentials">Planned end</a>`, `<a class="sort" href="/credentials?sort=newest">Issued</a>`)
	if a := b.get("/credentials?state=revoked"); strings.Contains(a.body, "sort=ending") {
		t.Error("revoked credentials can be sorted by expiry")
	}
	b.get("/audit").is(t, http.StatusOK, `aria-sort="descending"><a class="sort" href="/audit?sort=oldest">When</a>`)
	if a := b.get("/tasks/" + s.Task.ID); strings.Contains(a.body, `class="sort"`) {
		t.Error("the entries of a task can be sorted")
	}
}
