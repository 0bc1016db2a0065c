package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// The controls of a narrowed approval: each requested scope is kept, narrowed or dropped.
// Numbers are those of the scopes in their canonical order.
//
//ebb:invariant I7 An approval narrows a request by controls, and never widens it
func TestNarrowByControls(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/*:write orders:eu/*:read") // 0 reads, which policy grants by itself, 1 writes
	b := h.as(brokertest.Approver)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, `name="keep[]" value="0" checked`, `name="keep[]" value="1">`, `name="within-1"`, `placeholder="eu/*"`)
	for name, c := range map[string]struct {
		in    url.Values
		field string
	}{
		"nothing kept":     {url.Values{"minutes": {"5"}}, "scope"},
		"unknown number":   {url.Values{"keep[]": {"2", "-1", "x", "00"}, "minutes": {"5"}}, "scope"},
		"wider resource":   {url.Values{"keep[]": {"1"}, "within-1": {"**"}, "minutes": {"5"}}, "within-1"},
		"other resource":   {url.Values{"keep[]": {"1"}, "within-1": {"us/1"}, "minutes": {"5"}}, "within-1"},
		"another action":   {url.Values{"keep[]": {"0"}, "within-0": {"eu/1:write"}, "minutes": {"5"}}, "within-0"},
		"two scopes":       {url.Values{"keep[]": {"0"}, "within-0": {"eu/1:read orders:eu/2"}, "minutes": {"5"}}, "within-0"},
		"markup":           {url.Values{"keep[]": {"0"}, "within-0": {`"><script>`}, "minutes": {"5"}}, "within-0"},
		"too long":         {url.Values{"keep[]": {"0"}, "within-0": {"eu/" + strings.Repeat("a", 600)}, "minutes": {"5"}}, "within-0"},
		"the whole":        {url.Values{"keep[]": {"0", "1"}, "minutes": {"15"}}, "scope"},
		"too many minutes": {url.Values{"keep[]": {"0"}, "minutes": {"60"}}, "minutes"},
	} {
		page = b.choose(page, r.ID, "narrow", c.in)
		page.is(t, http.StatusUnprocessableEntity)
		if !strings.Contains(page.body, `id="`+c.field+`-problem" data-problem>`) || strings.Contains(page.body, `id="`+c.field+`-problem" data-problem></p>`) {
			t.Errorf("%s: no problem at %s", name, c.field)
		}
		var live struct {
			Remains  string
			Problems map[string]string
		}
		if got := b.get("/requests/" + r.ID + "/narrow?" + c.in.Encode()); json.Unmarshal([]byte(got.body), &live) != nil || live.Remains != "" || live.Problems[c.field] == "" {
			t.Errorf("%s: while typing: %s", name, got.body)
		}
	}
	in := url.Values{"keep[]": {"1"}, "within-1": {" eu/1 "}, "within-0": {"us/**"}, "minutes": {"5"}} // the resource of a dropped scope does not count
	const says = "You would approve for 5 min: write to eu/1."
	b.get("/requests/"+r.ID+"/narrow?"+in.Encode()).is(t, http.StatusOK, says)
	in.Set("check", "1") // without JavaScript
	page = b.choose(page, r.ID, "narrow", in)
	page.is(t, http.StatusOK, says, `name="keep[]" value="0">`, `name="keep[]" value="1" checked`, `value="eu/1"`)
	if h.again(r.ID).State != broker.RequestPending {
		t.Fatal("a check decided")
	}
	in.Del("check")
	b.choose(page, r.ID, "narrow", in).is(t, http.StatusSeeOther)
	if r = h.again(r.ID); r.State != broker.RequestApproved || r.Granted.String() != "orders:eu/1:write" || r.GrantedTTL != 300 {
		t.Errorf("%s %d %s", r.Granted, r.GrantedTTL, r.State)
	}
}
