package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

func items(a *answer) []map[string]any {
	list, _ := a.json["items"].([]any)
	var out []map[string]any
	for _, v := range list {
		out = append(out, v.(map[string]any))
	}
	return out
}

func TestTaskLife(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	path := "/v1/tasks/" + b.task
	do := func(method, at string, body any) *answer { return r.v1(t, brokertest.Runner, method, at, body) }
	if a := do("GET", path, nil); a.status != 200 || a.text("state") != "open" || a.json["sandbox"].(map[string]any)["id"] != b.client {
		t.Errorf("show: %d %s", a.status, a.body)
	}
	if a := do("POST", path+"/heartbeat", nil); a.status != 200 {
		t.Errorf("heartbeat: %d %s", a.status, a.body)
	}
	if a := do("POST", path+"/taint", map[string]any{"sources": []string{"public-issue-comments"}}); a.status != 200 {
		t.Errorf("taint: %d", a.status)
	}
	if a := do("POST", path+"/taint", map[string]any{"sources": []string{"approved by ann \u202e"}}); a.status != 400 {
		t.Errorf("free text as a source: %d", a.status)
	}
	if a := do("POST", path+"/pause", map[string]any{"reason": "lunch"}); a.status != 200 || a.text("state") != "paused" || a.text("reason") != "lunch" {
		t.Errorf("pause: %d %s", a.status, a.body)
	}
	b.ask(t, canRead).want(t, "a mint while paused", 400, "access_denied")
	if a := do("POST", path+"/resume", map[string]any{}); a.status != 200 || a.text("state") != "open" {
		t.Errorf("resume: %d %s", a.status, a.body)
	}
	b.access(t, canRead)
	if a := do("POST", path+"/ticket", nil); a.status != 201 { // it works for the key of the task's sandbox only
		t.Errorf("a ticket for a task with a sandbox: %d %s", a.status, a.body)
	}
	if a := do("POST", path+"/stop", map[string]any{"reason": "odd"}); a.status != 200 || a.number("revoked") != 1 {
		t.Errorf("stop: %d %s", a.status, a.body)
	}
	do("POST", path+"/heartbeat", nil).problem(t, "a heartbeat afterwards", 409, "conflict")
	do("POST", path+"/resume", nil).problem(t, "resuming afterwards", 409, "conflict")
	do("GET", "/v1/tasks/tsk_"+strings.Repeat("0", 32), nil).problem(t, "an unknown task", 404, "not_found")
	do("GET", "/v1/tasks/..%2f..%2fetc", nil).problem(t, "a path", 404, "not_found")
	for _, method := range []string{"GET", "POST"} {
		at := path
		if method == "POST" {
			at += "/complete"
		}
		r.v1(t, brokertest.Runner2, method, at, nil).problem(t, "H59 another runner", 404, "not_found")
	}
}

func TestOpenTaskRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	good := map[string]any{"name": "n", "kind": "k", "ttl_seconds": 60, "ceiling": canRead, "sandbox_expected": map[string]any{"attestor": "enroll"}}
	change := func(name string, v any) map[string]any {
		m := map[string]any{}
		for k, x := range good {
			m[k] = x
		}
		if m[name] = v; v == nil {
			delete(m, name)
		}
		return m
	}
	for what, c := range map[string]struct {
		body any
		kind string
	}{
		"unknown member":     {change("root", true), "invalid_request"},
		"no name":            {change("name", nil), "invalid_request"},
		"H57 bidi in a name": {change("name", "a\u202eb"), "invalid_request"},
		"no ceiling":         {change("ceiling", nil), "invalid_request"},
		"a bad ceiling":      {change("ceiling", "*"), "invalid_request"},
		"unknown provider":   {change("ceiling", "files:a:read"), "invalid_scope"},
		"too long":           {change("ttl_seconds", 1<<40), "invalid_request"},
		"no time":            {change("ttl_seconds", 0), "invalid_request"},
		"a fraction":         {change("ttl_seconds", 1.5), "invalid_request"},
		"unknown attestor":   {change("sandbox_expected", map[string]any{"attestor": "nobody"}), "invalid_request"},
		"caps":               {change("caps", map[string]any{"leases": -1}), "invalid_request"},
		"an array":           {[]any{}, "invalid_request"},
	} {
		r.v1(t, brokertest.Runner, "POST", "/v1/tasks", c.body).problem(t, what, 400, c.kind)
	}
	for _, who := range []string{brokertest.Approver, brokertest.Auditor, brokertest.Server} {
		r.v1(t, who, "POST", "/v1/tasks", good).problem(t, who, 403, "forbidden")
	}
	if a := r.v1(t, brokertest.Runner, "POST", "/v1/tasks", good); a.status != 201 || a.json["ticket"] != nil {
		t.Errorf("without a ticket: %d %s", a.status, a.body)
	}
}

func TestEnrollRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	opened := r.v1(t, brokertest.Runner, "POST", "/v1/tasks", withTicket())
	ticket := opened.text("ticket")
	key := brokertest.NewKey(t)
	for what, body := range map[string]map[string]any{
		"nothing": {}, "ticket and evidence": {"ticket": ticket, "evidence": "x"}, "evidence without a task": {"evidence": "x"},
		"ticket and attestor": {"ticket": ticket, "attestor": "enroll"}, "unknown member": {"ticket": ticket, "role": "root"},
	} {
		r.enroll(t, key, body).problem(t, what, 400, "invalid_request")
	}
	a := r.enroll(t, nil, map[string]any{"ticket": ticket})
	a.problem(t, "no proof", 401, "invalid_dpop_proof")
	r.enroll(t, key, map[string]any{"ticket": ticket[:len(ticket)-1] + "!"}).problem(t, "a guess", 403, "invalid_evidence")
	if a := r.enroll(t, key, map[string]any{"ticket": ticket}); a.status != 200 || a.text("token_type") != "DPoP" {
		t.Fatalf("a good ticket: %d %s", a.status, a.body)
	}
	r.enroll(t, brokertest.NewKey(t), map[string]any{"ticket": ticket}).problem(t, "I10 the same ticket again", 403, "invalid_evidence")
	late := r.v1(t, brokertest.Runner, "POST", "/v1/tasks", withTicket()).text("ticket")
	r.env.Clock.Add(2 * time.Minute)
	r.enroll(t, key, map[string]any{"ticket": late}).problem(t, "too late", 403, "invalid_evidence")
}

func TestPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	want := map[string]bool{}
	for i := range 5 {
		a := b.ask(t, fmt.Sprintf("orders:eu/%d:read", i))
		want[a.text("lease_id")] = true
		r.env.Clock.Add(time.Second)
	}
	for _, order := range []string{"asc", "desc"} {
		got, last, after := map[string]bool{}, "", ""
		for range 10 {
			a := r.v1(t, brokertest.Auditor, "GET", "/v1/leases?limit=2&order="+order+"&task_id="+b.task+after, nil)
			for _, l := range items(a) {
				id := l["id"].(string)
				if last != "" && (id > last) != (order == "asc") {
					t.Errorf("%s: %s after %s", order, id, last)
				}
				got[id], last = true, id
			}
			next := a.text("next")
			if next == "" {
				break
			}
			after = "&after=" + next
		}
		if len(got) != len(want) {
			t.Errorf("%s: paged over %d of %d leases", order, len(got), len(want))
		}
	}
	empty := r.v1(t, brokertest.Auditor, "GET", "/v1/leases?provider=mail", nil)
	if !strings.Contains(empty.body, `"items":[]`) {
		t.Errorf("an empty list is %s", empty.body)
	}
}

func TestQueriesAreStrict(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for _, q := range []string{"x=1", "limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "order=up", "state=unknown", "state=", "after=%00", "after=a&after=b", "%zz", "access_token=x", "owner=%e2%80%ae"} {
		for _, path := range []string{"/v1/tasks", "/v1/leases", "/v1/requests"} {
			r.v1(t, brokertest.Operator, "GET", path+"?"+q, nil).problem(t, path+"?"+q, 400, "invalid_request")
		}
	}
	for _, q := range []string{"from=yesterday", "format=xml", "after=1.2", "after=x.y.z", "cursor=1"} {
		r.v1(t, brokertest.Operator, "GET", "/v1/audit?"+q, nil).problem(t, q, 400, "invalid_request")
	}
	for _, q := range []string{"wait_seconds=3601", "wait_seconds=-1", "wait_seconds=1e1", "since=1"} {
		r.v1(t, brokertest.Operator, "GET", "/v1/revocations?"+q, nil).problem(t, q, 400, "invalid_request")
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	a := b.ask(t, canRead)
	path := "/v1/leases/" + a.text("lease_id")
	if got := r.v1(t, brokertest.Auditor, "GET", path, nil); got.status != 200 || got.text("state") != "live" || strings.Contains(got.body, a.text("access_token")) {
		t.Errorf("%d %s", got.status, got.body)
	}
	r.v1(t, brokertest.Auditor, "POST", path+"/revoke", map[string]any{"reason": "x"}).problem(t, "an auditor", 403, "forbidden")
	r.v1(t, brokertest.Runner2, "POST", path+"/revoke", map[string]any{"reason": "x"}).problem(t, "another runner", 404, "not_found")
	if got := r.v1(t, brokertest.Runner, "POST", path+"/revoke", map[string]any{"reason": "x"}); got.status != 200 || got.text("state") != "revoked" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if r.active(t, a.text("access_token")) {
		t.Error("still active")
	}
}

func TestAuditPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	for range 4 {
		b.access(t, canRead) // several entries within one millisecond of the clock
	}
	token, key := r.apiToken(t, brokertest.Auditor), r.env.Keys[brokertest.Auditor]
	whole := items(r.v1With(t, token, key, "GET", "/v1/audit?limit=1000", nil))
	for _, order := range []string{"asc", "desc"} {
		var hashes []string
		after := ""
		for range 100 {
			a := r.v1With(t, token, key, "GET", "/v1/audit?limit=3&order="+order+after, nil)
			for _, e := range items(a) {
				hashes = append(hashes, e["hash"].(string))
			}
			if a.text("next") == "" {
				break
			}
			after = "&after=" + a.text("next")
		}
		if len(hashes) != len(whole) {
			t.Fatalf("%s: paged over %d of %d entries", order, len(hashes), len(whole))
		}
		for i, h := range hashes {
			j := i
			if order == "desc" {
				j = len(whole) - 1 - i
			}
			if whole[j]["hash"] != h {
				t.Fatalf("%s: entry %d is out of order or repeated", order, i)
			}
		}
	}
	for _, e := range items(r.v1(t, brokertest.Auditor, "GET", "/v1/audit?kind=lease.&task_id="+b.task, nil)) {
		if !strings.HasPrefix(e["kind"].(string), "lease.") || e["task_id"] != b.task {
			t.Errorf("%v", e)
		}
	}
	r.v1(t, brokertest.Approver, "GET", "/v1/audit", nil).problem(t, "an approver", 403, "forbidden")
}

// ebb refuses a filter for a kind that does not exist. An empty list would look as if nothing had happened.
func TestAuditKind(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for kind, want := range map[string]string{
		"lease.isued":         `\"lease.isued\" is not a kind of audit entry. Use one of: lease.accepted, `,
		"lease.lost":          `Use one of: lease.accepted, lease.dead, `,
		"foo":                 `Use one of: absence., box., breakglass., `,
		"lease":               `Use one of: absence., `,
		"signin.succeeded":    `Use one of: absence., `,
		".":                   `Use one of: absence., `,
		"%3Cb%3E":             `\"<b>\" is not a kind`,
		"ebb_rt_AAAAAAAAAAAA": `\"ebb_rt_...\" is not a kind`,
	} {
		for _, path := range []string{"/v1/audit?kind=", "/v1/audit?format=jsonl&kind=", "/v1/audit/proof?kind="} {
			a := r.v1(t, brokertest.Auditor, "GET", path+kind, nil)
			a.problem(t, kind, 400, "invalid_request")
			if got := strconv.Quote(a.text("detail")); !strings.Contains(got, want) {
				t.Errorf("%s%s: %s, want %s in it", path, kind, got, want)
			}
		}
	}
}

// 'ebb audit verify' verifies an export with the public keys alone.
func TestAuditExport(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	b.access(t, canRead)
	if err := r.env.Broker.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.access(t, "orders:eu/43:read")
	a := r.v1(t, brokertest.Auditor, "GET", "/v1/audit?format=jsonl", nil)
	if a.status != 200 || a.header.Get("Content-Type") != "application/jsonl" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	report, err := audit.Verify(strings.NewReader(a.body), r.keySet(t))
	if err != nil {
		t.Fatalf("the export does not verify: %v\n%s", err, a.body)
	}
	lines := strings.Split(strings.TrimSpace(a.body), "\n")
	if !strings.HasPrefix(lines[len(lines)-1], `{"checkpoint":`) {
		t.Errorf("the last line is %s", lines[len(lines)-1])
	}
	t.Logf("%+v", report)
	taken := r.v1(t, brokertest.Auditor, "GET", "/v1/audit?kind=record.exported", nil)
	if got := items(taken); len(got) != 1 || !strings.Contains(taken.body, fmt.Sprintf(`"data":{"filter":{},"format":"jsonl","list":"audit","rows":%d,"whole":true}`, len(lines)-1)) {
		t.Errorf("that it was taken out is on the record as %s", taken.body)
	}
	changed := bytes.Replace([]byte(a.body), []byte(`"actor":"ci"`), []byte(`"actor":"no"`), 1)
	if _, err := audit.Verify(bytes.NewReader(changed), r.keySet(t)); err == nil {
		t.Error("a changed export verifies")
	}
	if list := r.v1(t, brokertest.Auditor, "GET", "/v1/audit/checkpoints", nil); list.status != 200 || len(items(list)) != 1 {
		t.Errorf("%d %s", list.status, list.body)
	}
}

// A proof of a filter verifies with the public keys alone.
func TestAuditProof(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	b.access(t, canRead)
	b.access(t, "orders:eu/43:read")
	verify := func(path string) (audit.Report, string) {
		t.Helper()
		a := r.v1(t, brokertest.Auditor, "GET", path, nil)
		if a.status != 200 || a.header.Get("Content-Type") != "application/jsonl" {
			t.Fatalf("%s: %d %v %s", path, a.status, a.header, a.body)
		}
		report, err := audit.Verify(strings.NewReader(a.body), r.keySet(t))
		if err != nil || report.Proof == nil {
			t.Fatalf("%s: %+v, %v\n%s", path, report, err, a.body)
		}
		return report, a.body
	}
	for _, path := range []string{"/v1/audit/proof", "/v1/leases/proof"} {
		if a := r.v1(t, brokertest.Runner, "GET", path, nil); a.status != 403 {
			t.Errorf("a runner gets %s: %d", path, a.status)
		}
	}
	if points, err := r.env.Store.Checkpoints(t.Context()); err != nil || len(points) != 0 {
		t.Errorf("refused proofs made %d checkpoints, %v", len(points), err)
	}
	of, _ := verify("/v1/audit/proof?kind=lease.issued")
	if of.Entries != 2 || of.Checkpoints != 1 || of.Proof.List != "audit" || of.Proof.Unsigned != 0 || of.Proof.Filter["kind"] != "lease.issued" {
		t.Errorf("%+v, %+v", of, of.Proof)
	}
	if empty, _ := verify("/v1/audit/proof?kind=lease.issued&actor=stranger"); empty.Entries != 0 || empty.Checkpoints != 0 {
		t.Errorf("a proof without entries: %+v", empty)
	}
	leases, body := verify("/v1/leases/proof?resource=eu/43")
	if leases.Entries != 1 || leases.Proof.List != "credentials" || !strings.Contains(body, `"scope":"orders:eu/43:read"`) {
		t.Errorf("%+v\n%s", leases, body)
	}
	taken := r.v1(t, brokertest.Auditor, "GET", "/v1/audit?kind=record.exported", nil)
	if got := items(taken); len(got) != 3 || !strings.Contains(taken.body, `"data":{"filter":{"resource":"eu/43"},"format":"proof.jsonl","list":"credentials","rows":1,"whole":true}`) {
		t.Errorf("the exports in the audit log: %s", taken.body)
	}
	r.v1(t, brokertest.Auditor, "GET", "/v1/leases/proof?resource=eu/43:read", nil).problem(t, "a scope as resource", 400, "invalid_request")
	r.v1(t, brokertest.Auditor, "GET", "/v1/audit/proof?limit=1", nil).problem(t, "a page", 400, "invalid_request")
	for _, who := range []string{brokertest.Runner, brokertest.Approver} {
		for _, path := range []string{"/v1/audit/proof", "/v1/leases/proof"} {
			r.v1(t, who, "GET", path+"?task_id="+b.task, nil).problem(t, who, 403, "forbidden")
		}
	}
}

// An export that fails must not look complete.
func TestAuditExportBreaksOff(t *testing.T) {
	t.Parallel()
	r, f := faultyRig(t)
	r.sandbox(t)
	token, key := r.apiToken(t, brokertest.Auditor), r.env.Keys[brokertest.Auditor]
	f.store.Store(true)
	a := r.v1With(t, token, key, "GET", "/v1/audit?format=jsonl", nil)
	a.problem(t, "before the first line", 503, "temporarily_unavailable")
	leaks(t, "export", a)
}

func TestRevocationFeed(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{broker: brokertest.Config{RealTime: true}})
	b := r.sandbox(t)
	who, key := r.apiToken(t, brokertest.Operator), r.env.Keys[brokertest.Operator]
	first := r.v1With(t, who, key, "GET", "/v1/revocations", nil)
	if first.status != 200 || first.number("max_age_seconds") <= 0 || !strings.Contains(first.body, `"events":[]`) {
		t.Fatalf("%d %s", first.status, first.body)
	}
	done := make(chan *answer)
	go func() {
		done <- r.v1With(t, who, key, "GET", "/v1/revocations?wait_seconds=25&cursor="+first.text("cursor"), nil)
	}()
	r.v1(t, brokertest.Runner, "POST", "/v1/tasks/"+b.task+"/complete", nil)
	select {
	case a := <-done:
		events, _ := a.json["events"].([]any)
		if len(events) != 1 || events[0].(map[string]any)["task_id"] != b.task || a.text("cursor") == first.text("cursor") {
			t.Errorf("%d %s", a.status, a.body)
		}
	case <-time.After(22 * time.Second):
		t.Fatal("the long poll did not wake up")
	}
	r.v1(t, brokertest.Runner, "GET", "/v1/revocations", nil).problem(t, "a runner", 403, "forbidden")
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	query := map[string]any{"sandbox": map[string]any{"id": "sbx", "attestor": "enroll", "evidence": "ticket", "subject": "s"},
		"task": map[string]any{"id": "tsk", "kind": "bugfix", "owner": "bo", "age_seconds": 1}, "scope": canRead + " " + mustAsk,
		"ttl_seconds": 60, "binding": "dpop", "delivery": "token", "record": map[string]any{"denials": 0, "violations": 0}}
	a := r.v1(t, brokertest.Operator, "POST", "/v1/policy/explain", map[string]any{"query": query})
	decision, _ := a.json["decision"].(map[string]any)
	if a.status != 200 || decision["effect"] != "ask" || decision["would_allow"] != canRead {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.v1(t, brokertest.Operator, "POST", "/v1/policy/explain", map[string]any{"query": map[string]any{}}).problem(t, "an empty query", 400, "invalid_request")
	query["extra"] = 1
	r.v1(t, brokertest.Operator, "POST", "/v1/policy/explain", map[string]any{"query": query}).problem(t, "an unknown member", 400, "invalid_request")
	r.v1(t, brokertest.Runner, "POST", "/v1/policy/explain", map[string]any{"query": map[string]any{}}).problem(t, "a runner", 403, "forbidden")
	if a := r.v1(t, brokertest.Auditor, "GET", "/v1/policy", nil); a.status != 200 || a.text("version") == "" || !strings.Contains(a.body, "starter.cedar") {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.v1(t, brokertest.Server, "GET", "/v1/policy", nil).problem(t, "a resource server", 403, "forbidden")
}

// Authentication comes first: without credentials the body is not read.
func TestAuthenticationComesFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for _, route := range r.api.Routes() {
		// Enrolment authenticates by evidence, and the challenge by a key; SSH
		// hosts have no credentials.
		if !strings.HasPrefix(route.Path, "/v1/") || route.Path == "/v1/enroll" || route.Path == "/v1/challenge" || strings.HasPrefix(route.Path, "/v1/ssh/") {
			continue
		}
		req := r.request(route.Method, strings.ReplaceAll(route.Path, ":id", "x"), strings.NewReader("{not json"))
		r.do(t, req).problem(t, route.Method+" "+route.Path, 401, "invalid_client")
	}
}

// Agent text stays inert: JSON that cannot inject markup into a page.
//
//ebb:invariant I9
func TestReasonIsInert(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	hostile := "</script><img src=x onerror=alert(1)>\u202e\x1b[31m=cmd|'/c calc'!A1\n**approved**"
	b.ask(t, mustAsk, "completion_mode", "deferred", "reason", hostile).want(t, "pending", 400, "authorization_pending")
	a := r.v1(t, brokertest.Approver, "GET", "/v1/requests", nil)
	for _, raw := range []string{"</script>", "<img", "\u202e", "\x1b", "&"} {
		if strings.Contains(a.body, raw) {
			t.Errorf("the answer holds %q in the clear", raw)
		}
	}
	if got := items(a)[0]["reason"]; got != hostile {
		t.Errorf("the reason came back as %q", got)
	}
	if strings.Contains(r.log.String(), "onerror") {
		t.Error("the log holds the agent's words")
	}
}

// TestOverTheNetwork makes one request flow through a real listener, which
// tests HTTP framing, keep-alive and deadlines.
func TestOverTheNetwork(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{broker: brokertest.Config{RealTime: true}})
	srv := httptest.NewServer(r.mux)
	defer srv.Close()
	b := r.sandbox(t)
	for range 3 {
		req, err := http.NewRequest(http.MethodPost, srv.URL+tokenURL, strings.NewReader(b.exchange(canRead).Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("DPoP", r.proof(t, b.key, "POST", tokenURL, ""))
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || resp.ContentLength <= 0 {
			t.Errorf("%d, length %d", resp.StatusCode, resp.ContentLength)
		}
	}
}
