package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

const evidenceHeader = "X-Workload-Token"

// headerRig has two attestors of one issuer: idp takes its evidence from the header,
// plain from the body.
type headerRig struct {
	*rig
	idp *idp
}

func newHeaderRig(t *testing.T) headerRig {
	t.Helper()
	start := time.Now().UTC().Truncate(time.Second)
	p, plain := newIDP(t, func() time.Time { return start }), newIDP(t, func() time.Time { return start })
	r := newRig(t, options{broker: brokertest.Config{Start: start, Headers: map[string]string{"idp": evidenceHeader},
		Attestors: map[string]attest.Attestor{"idp": p.att, "plain": plain.att}}})
	return headerRig{r, p}
}

func (r headerRig) open(t *testing.T, attestor string) string {
	t.Helper()
	s := spec()
	s.Ticket, s.Expect = false, broker.Expect{Attestor: attestor, Selectors: map[string]string{"repo": "acme/web"}}
	task, _, err := r.env.Broker.OpenTask(t.Context(), r.env.Principals[brokertest.Runner], s)
	if err != nil {
		t.Fatal(err)
	}
	return task.ID
}

func (r headerRig) shown(t *testing.T, key jose.Signer, body map[string]any, headers ...string) *answer {
	t.Helper()
	req := r.request(http.MethodPost, "/v1/enroll", encode(t, body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("DPoP", r.proof(t, key, http.MethodPost, "/v1/enroll", ""))
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return r.do(t, req)
}

// Evidence that a platform's egress writes into a header enrols, for a named
// attestor and for the task's attestor. The document is not in the log.
func TestEvidenceInAHeader(t *testing.T) {
	t.Parallel()
	r := newHeaderRig(t)
	for name, attestor := range map[string]string{"named": "idp", "of the task": ""} {
		task, key, token := r.open(t, "idp"), brokertest.NewKey(t), r.idp.token(t, nil)
		a := r.shown(t, key, map[string]any{"task_id": task, "attestor": attestor, "evidence": ""}, strings.ToLower(evidenceHeader), token)
		if a.status != 200 || a.text("task_id") != task {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
		// The egress writes the header into each request: other endpoints
		// ignore it.
		f := url.Values{"grant_type": {grantExchange}, "subject_token": {a.text("task_token")}, "subject_token_type": {typeTask}, "scope": {canRead}}
		got := r.post(t, tokenURL, f, header("DPoP", r.proof(t, key, "POST", tokenURL, "")), header(evidenceHeader, token))
		if got.status != 200 {
			t.Errorf("%s: a token request with the header: %d %s", name, got.status, got.body)
		}
		if parts := strings.Split(token, "."); strings.Contains(r.log.String(), parts[1]) || strings.Contains(r.log.String(), parts[2]) {
			t.Error("the log has the document")
		}
	}
}

// Evidence of a header is read from that header only, and once.
func TestHostileEvidenceHeaders(t *testing.T) {
	t.Parallel()
	r := newHeaderRig(t)
	good, thief := r.idp.token(t, nil), brokertest.NewKey(t)
	task := map[string]any{"task_id": r.open(t, "idp")}
	with := func(more map[string]any) map[string]any { return merged(task, more) }
	const invalid, refused = "invalid_request", "invalid_evidence"
	for name, c := range map[string]struct {
		body    map[string]any
		headers []string
		status  int
		kind    string
	}{
		"header and body":             {with(map[string]any{"evidence": good}), []string{evidenceHeader, good}, 400, invalid},
		"body alone":                  {with(map[string]any{"evidence": good}), nil, 400, invalid},
		"neither":                     {task, nil, 400, invalid},
		"another header":              {task, []string{"X-Workload-Tokens", good}, 400, invalid},
		"Authorization":               {task, []string{"Authorization", "Bearer " + good}, 400, invalid},
		"twice the same":              {task, []string{evidenceHeader, good, evidenceHeader, good}, 400, invalid},
		"two":                         {task, []string{evidenceHeader, good, evidenceHeader, "x"}, 400, invalid},
		"one and an empty one":        {task, []string{evidenceHeader, good, evidenceHeader, ""}, 400, invalid},
		"joined with a comma":         {task, []string{evidenceHeader, good + "," + good}, 400, invalid},
		"joined with comma and space": {task, []string{evidenceHeader, good + ", x"}, 400, invalid},
		"a scheme":                    {task, []string{evidenceHeader, "Bearer " + good}, 400, invalid},
		"empty":                       {task, []string{evidenceHeader, ""}, 400, invalid},
		"padding alone":               {task, []string{evidenceHeader, "==="}, 400, invalid},
		"padding inside":              {task, []string{evidenceHeader, "a=" + good}, 400, invalid},
		"a placeholder left":          {task, []string{evidenceHeader, "${e2b.identity.tokens.ebb}"}, 400, invalid},
		"NUL":                         {task, []string{evidenceHeader, good + "\x00"}, 400, invalid},
		"a line end":                  {task, []string{evidenceHeader, good + "\r\nX: y"}, 400, invalid},
		"a tab":                       {task, []string{evidenceHeader, good + "\t"}, 400, invalid},
		"delete":                      {task, []string{evidenceHeader, good + "\x7f"}, 400, invalid},
		"unicode":                     {task, []string{evidenceHeader, good + "\u00e9"}, 400, invalid},
		"no UTF-8":                    {task, []string{evidenceHeader, good + "\xff"}, 400, invalid},
		"oversized":                   {task, []string{evidenceHeader, strings.Repeat("a", 8<<10+1)}, 400, invalid},
		"just not oversized":          {task, []string{evidenceHeader, strings.Repeat("a", 8<<10)}, 403, refused},
		"no token":                    {task, []string{evidenceHeader, "x"}, 403, refused},
		"no such task":                {map[string]any{"task_id": "tsk_" + strings.Repeat("0", 32)}, []string{evidenceHeader, good}, 403, refused},
		"for an attestor without one": {map[string]any{"task_id": r.open(t, "plain")}, []string{evidenceHeader, good}, 403, refused},
		"the same, named":             {map[string]any{"task_id": r.open(t, "plain"), "attestor": "plain"}, []string{evidenceHeader, good}, 403, refused},
		"named against the task's":    {map[string]any{"task_id": r.open(t, "plain"), "attestor": "idp"}, []string{evidenceHeader, good}, 403, refused},
		"a ticket of nobody's":        {map[string]any{"ticket": "ebb_tkt_x"}, []string{evidenceHeader, good}, 403, refused},
	} {
		r.shown(t, thief, c.body, c.headers...).problem(t, name, c.status, c.kind)
	}
	// The failed attempts have not used up the document for the sandbox's own
	// key.
	a := r.shown(t, brokertest.NewKey(t), task, evidenceHeader, good)
	if a.status != 200 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
	for _, secret := range strings.Split(good, ".")[1:] {
		if strings.Contains(r.log.String(), secret) {
			t.Error("the log has the document")
		}
	}
}

// A stolen document for a header is refused in a body, with every grant.
func TestEvidenceOfAHeaderInABody(t *testing.T) {
	t.Parallel()
	r := newHeaderRig(t)
	task, key, stolen := r.open(t, "idp"), brokertest.NewKey(t), r.idp.token(t, nil)
	prove := func() func(*http.Request) { return header("DPoP", r.proof(t, key, "POST", tokenURL, "")) }
	for name, c := range map[string]struct {
		form url.Values
		code string
	}{
		"token exchange": {url.Values{"grant_type": {grantExchange}, "subject_token": {stolen}, "subject_token_type": {typeJWT}}, "invalid_request"},
		"jwt-bearer":     {url.Values{"grant_type": {grantJWTBearer}, "assertion": {stolen}}, "invalid_grant"},
	} {
		c.form.Set("task_id", task)
		c.form.Set("scope", canRead)
		r.post(t, tokenURL, c.form, prove()).want(t, name, 400, c.code)
		r.post(t, tokenURL, c.form, prove(), header(evidenceHeader, stolen)).want(t, name+" with the header", 400, c.code)
	}
}

func merged(a, b map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range []map[string]any{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}
