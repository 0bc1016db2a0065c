package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// choose fills in the decide form of this choice and sends it.
func (b *browser) choose(page answer, id, choice string, fields url.Values) answer {
	b.h.t.Helper()
	return b.do(http.MethodPost, "/requests/"+id+"/decide", b.form(page, choice, fields), nil)
}

var narrowTarget = regexp.MustCompile(`<label for="narrow-target">[^<]*<span class="name">([^<]*)</span>`)

// form returns the decide form of this choice, filled in.
func (b *browser) form(page answer, choice string, fields url.Values) url.Values {
	b.h.t.Helper()
	for _, f := range formTag.FindAllString(page.body, -1) {
		out := url.Values{}
		for _, in := range inputTag.FindAllStringSubmatch(f, -1) {
			out.Add(html.UnescapeString(in[1]), html.UnescapeString(in[2]))
		}
		if out.Get("choice") != choice {
			continue
		}
		if m := narrowTarget.FindStringSubmatch(f); m != nil { // the name that the form shows, unless the test types another
			out.Set("target", html.UnescapeString(m[1]))
		}
		for name, values := range fields {
			out[name] = values
		}
		return out
	}
	b.h.t.Fatalf("the page has no form for %s: %s", choice, page.body)
	return nil
}

func (h *fixture) again(id string) broker.Request {
	h.t.Helper()
	r, err := h.Broker.Request(h.t.Context(), h.Principals[brokertest.Auditor], id)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

var no = url.Values{"code": {"too_broad"}, "note": {"A branch is enough."}}

func TestDeny(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	b.get("/queue").is(t, http.StatusOK, r.Match, "Waiting for you (1)", "/requests/"+r.ID)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "Write to", "eu/1", r.Match, "Agent text, not checked", "I need it", "you are in approvers")
	a := b.choose(page, r.ID, "deny", no)
	a.is(t, http.StatusSeeOther)
	if a.Header.Get("Location") != "/requests/"+r.ID {
		t.Error(a.Header)
	}
	b.get("/requests/"+r.ID).is(t, http.StatusOK, "You denied this ", " ago: too broad.")
	if r = h.again(r.ID); r.State != broker.RequestDenied || r.Code != broker.TooBroad || r.Note != "A branch is enough." {
		t.Errorf("%+v", r)
	}
	b.get("/queue").is(t, http.StatusOK, "No requests are waiting for you")
}

// Acceptance check 16: a denial needs a reason, and typed input is kept.
func TestDenyNeedsReason(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	page := b.get("/requests/" + r.ID)
	a := b.choose(page, r.ID, "deny", url.Values{"code": {"too_broad"}, "note": {strings.Repeat("é", 501)}})
	a.is(t, http.StatusUnprocessableEntity, `id="note-problem"`, `aria-describedby="note-problem`, "autofocus", `value="too_broad" selected`)
	a = b.choose(a, r.ID, "deny", url.Values{"note": {"kept <b>& safe"}})
	a.is(t, http.StatusUnprocessableEntity, `id="code-problem"`, "kept &lt;b&gt;&amp; safe</textarea>")
	a = b.choose(a, r.ID, "deny", url.Values{"code": {"suspicious; x"}, "note": {strings.Repeat("é", 501)}})
	a.is(t, http.StatusUnprocessableEntity, `id="code-problem"`, `id="note-problem"`)
	if h.again(r.ID).State != broker.RequestPending {
		t.Error("decided")
	}
	b.choose(a, r.ID, "deny", url.Values{"code": {"not_needed"}, "note": {""}}).is(t, http.StatusSeeOther)
}

func TestApprove(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	b.choose(b.get("/requests/"+r.ID), r.ID, "approve", typedTarget).is(t, http.StatusSeeOther)
	b.get("/requests/"+r.ID).is(t, http.StatusOK, "You approved this ", " ago: orders:eu/1:write for 15 min.")
	if r = h.again(r.ID); r.State != broker.RequestApproved || r.Votes[0].Digest != r.Digest {
		t.Errorf("%+v", r)
	}
}

func TestApproveNarrower(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/*:write orders:eu/*:read")
	b := h.as(brokertest.Approver)
	page := b.get("/requests/" + r.ID)
	for field, in := range map[string]url.Values{
		"scope":   {"scope": {"orders:**:write"}, "minutes": {"5"}},
		"minutes": {"scope": {"orders:eu/1:write"}, "minutes": {"60"}},
	} {
		page = b.choose(page, r.ID, "narrow", in)
		page.is(t, http.StatusUnprocessableEntity, `id="`+field+`-problem"`, in.Get("scope"), `value="`+in.Get("minutes")+`"`)
	}
	for _, in := range []url.Values{
		{"scope": {""}, "minutes": {"5"}}, {"scope": {"<script>"}, "minutes": {"5"}}, {"scope": {"orders:eu/1:write"}, "minutes": {"0"}},
		{"scope": {"orders:eu/1:write"}, "minutes": {"-1"}}, {"scope": {"orders:eu/1:write"}, "minutes": {"1e1"}}, {"scope": {r.Scopes.String()}, "minutes": {"15"}},
	} {
		page = b.choose(page, r.ID, "narrow", in)
		page.is(t, http.StatusUnprocessableEntity)
	}
	b.choose(page, r.ID, "narrow", url.Values{"scope": {" orders:eu/1:write \r\n"}, "minutes": {"5"}}).is(t, http.StatusSeeOther)
	if r = h.again(r.ID); r.State != broker.RequestApproved || r.Granted.String() != "orders:eu/1:write" || r.GrantedTTL != 300 {
		t.Errorf("%s %d %s", r.Granted, r.GrantedTTL, r.State)
	}
}
