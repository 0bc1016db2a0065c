package console_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// canary is contained in every hostile text.
const canary = "zqxcanary"

// hostile returns texts that an agent may send: those of the tests of
// agenttext, and texts that attack pages and their readers.
func hostile(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{"": "", "canary": ""}
	for name, text := range agenttexttest.Hostile(t) {
		out[name] = text
	}
	for name, text := range out {
		if out[name] = canary + " " + text; name == "" {
			out[name] = ""
		}
	}
	return out
}

// asks creates a request of a new task with this reason.
func (h *fixture) asks(scope, reason string, spec broker.TaskSpec) (broker.Request, *brokertest.Sandbox) {
	h.t.Helper()
	s := h.Open(h.t, spec)
	in := s.Request(h.t, scope)
	in.Deferred, in.Reason = true, agenttext.From(reason)
	if _, err := h.Broker.Token(h.t.Context(), in); broker.AsError(err) == nil || broker.AsError(err).Kind != broker.Pending {
		h.t.Fatal(err)
	}
	rs, err := h.Broker.Requests(h.t.Context(), h.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID})
	if err != nil || len(rs) != 1 {
		h.t.Fatal(len(rs), err)
	}
	return rs[0], s
}

var (
	agentBox    = regexp.MustCompile(`(?s)<section class="agent.*?</section>`)
	hiddenInput = regexp.MustCompile(`<input type="hidden"[^>]*>`)
	anyTag      = regexp.MustCompile(`<(/?)([a-zA-Z0-9]+)([^>]*)>`)
	attribute   = regexp.MustCompile(`([a-zA-Z:@_-]+)(="[^"]*")?`)
)

// Acceptance checks 5, 7, 8 and 11: for every text of an agent, the page differs
// only in the agent's box. The box contains only text, and no page
// contains an invisible character.
//
//ebb:invariant I9
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b, aud := h.as(brokertest.Approver), h.as(brokertest.Auditor)
	var first, firstRow string
	for name, text := range hostile(t) {
		spec := brokertest.Spec()
		spec.Owner = fmt.Sprintf("owner-%x@example.com", sha256.Sum256([]byte(name))) // each without a history
		r, _ := h.asks("orders:eu/1:write", text, spec)
		page := b.get("/requests/" + r.ID)
		page.is(t, http.StatusOK, "Agent text, not checked")
		checkAgentBox(t, name, page.body)
		same := func(body string) string {
			body = hiddenInput.ReplaceAllString(agentBox.ReplaceAllString(body, ""), "")
			return strings.NewReplacer(r.ID, "ID", r.TaskID, "TASK", r.Sandbox, "SANDBOX", r.Match, "MATCH", r.Digest, "DIGEST", r.Owner, "OWNER", r.Binding.JKT, "KEY").Replace(body)
		}
		queue := b.get("/queue?task=" + r.TaskID)
		queue.is(t, http.StatusOK, r.Match)
		if first == "" {
			first, firstRow = same(page.body), same(queue.body)
		}
		if got := same(page.body); got != first {
			t.Errorf("%q changed the page: %s\n%s", name, got, first)
		}
		if got := same(queue.body); got != firstRow {
			t.Errorf("%q changed the queue: %s", name, got)
		}
		wrong := b.choose(page, r.ID, "deny", nil)
		wrong.is(t, http.StatusUnprocessableEntity)
		b.choose(wrong, r.ID, "deny", no).is(t, http.StatusSeeOther)
		after := b.get("/requests/" + r.ID)
		seen := aud.get("/requests/" + r.ID + "/snapshot/" + brokertest.Approver)
		seen.is(t, http.StatusOK, "Agent text, not checked")
		for where, a := range map[string]answer{"request": page, "queue": queue, "form": wrong, "decided": after, "seen": seen} {
			checkWhole(t, name+", "+where, a.body)
		}
	}
}

// checkAgentBox fails unless the box contains only text between ebb's own tags,
// and no active attribute.
func checkAgentBox(t *testing.T, name, body string) {
	t.Helper()
	boxes := agentBox.FindAllString(body, -1)
	if len(boxes) != 1 {
		t.Fatalf("%s: %d agent boxes", name, len(boxes))
	}
	for _, tag := range anyTag.FindAllStringSubmatch(boxes[0], -1) {
		switch tag[2] {
		case "section", "h2", "p", "ul", "li", "bdi", "details", "summary", "span":
		default:
			t.Errorf("%s: <%s> in the agent's box", name, tag[2])
		}
		for _, a := range attribute.FindAllStringSubmatch(tag[3], -1) {
			switch a[1] {
			case "class", "id", "dir", "tabindex", "aria-labelledby":
			default:
				t.Errorf("%s: attribute %s in the agent's box", name, a[1])
			}
		}
	}
	for _, text := range regexp.MustCompile(`(?s)<bdi class="text"[^>]*>(.*?)</bdi>`).FindAllStringSubmatch(boxes[0], -1) {
		if strings.ContainsAny(text[1], "<>") {
			t.Errorf("%s: a tag in the agent's text: %s", name, text[1])
		}
	}
	if !strings.Contains(boxes[0], `aria-labelledby="agent-heading"`) || !strings.Contains(boxes[0], `tabindex="0"`) {
		t.Errorf("%s: the box has no name or cannot be reached", name)
	}
}

// checkWhole fails if agent text is outside of the box, unrendered, or
// invisible.
func checkWhole(t *testing.T, where, body string) {
	t.Helper()
	if strings.Contains(body, "UNRENDERED") {
		t.Errorf("%s: agent text was printed, not drawn", where)
	}
	if strings.Contains(agentBox.ReplaceAllString(body, ""), canary) {
		t.Errorf("%s: an agent's word outside of its box", where)
	}
	for _, r := range body {
		if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Variation_Selector) {
			t.Fatalf("%s: %U in the page", where, r)
		}
	}
}

// Acceptance check 1: facts first, then the agent's text, and the forms at the
// very end. Nothing floats above anything.
func TestOrder(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r, _ := h.asks("orders:eu/1:write", strings.Repeat(canary+"\n", 150), brokertest.Spec())
	body := h.as(brokertest.Approver).get("/requests/" + r.ID).body
	last := 0
	for _, mark := range []string{"<h1>", `<table class="facts"`, `<dl class="pairs">`, `<section class="agent`, `<section class="decide`, `value="deny"`, `value="narrow"`, `value="approve"`, "</main>"} {
		i := strings.Index(body, mark)
		if i < last {
			t.Fatalf("%s is at %d, before %d: %s", mark, i, last, body)
		}
		last = i
	}
	css, err := os.ReadFile("assets/ebb.css")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"sticky", "fixed", "ellipsis"} {
		if strings.Contains(string(css), bad) {
			t.Errorf("the style says %s", bad)
		}
	}
}
