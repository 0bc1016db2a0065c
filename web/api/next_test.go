package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
)

// steps returns the member next of a response.
func (a *answer) steps() string {
	list, _ := a.json["next"].([]any)
	var all []string
	for _, s := range list {
		all = append(all, s.(string))
	}
	return strings.Join(all, "\n")
}

// says checks that a refusal has every text of want, in detail or error_description and in next.
func (a *answer) says(t testing.TB, what string, want ...string) {
	t.Helper()
	said := a.text("detail") + a.text("error_description") + "\n" + a.steps()
	if a.status < 400 || a.steps() == "" {
		t.Errorf("%s: %d without next: %s", what, a.status, a.body)
	}
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("%s: got %q, want %q in it", what, said, w)
		}
	}
}

// Each refusal of a token request repeats what was wrong, lists what the sandbox may know, and names the next step.
func TestRefusalsOfTokenRequestsNameTheNextStep(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	b.ask(t, "orderz:eu/42:read").says(t, "an unknown provider", "'orderz'", "Providers of this task: mail, orders.", "PROVIDER:RESOURCE:ACTION")
	narrow := spec()
	narrow.Ceiling = scopes.MustParseSet(canRead)
	small := r.sandboxFor(t, narrow)
	if a := small.ask(t, "orderz:eu/42:read"); strings.Contains(a.body, "mail") {
		t.Errorf("a sandbox learns of a provider outside of its ceiling: %s", a.body)
	}
	small.ask(t, mustAsk).says(t, "over the ceiling", mustAsk, "ceiling of the task, which is "+canRead)
	b.ask(t, mustAsk).says(t, "an approval", "completion_mode=deferred", "--wait", "approvers")
	p := b.pend(t, mustAsk)
	if groups, _ := p.json["approver_groups"].([]any); len(groups) != 1 || groups[0] != "approvers" || p.text("request_id") == "" {
		t.Errorf("who can approve: %s", p.body)
	}
	other := b.askWith(t, b.proofWith(t, nil, put("htu", "https://other.example/oauth2/token")))
	other.says(t, "a proof for another URL", "at "+r.env.Issuer, "--url "+r.env.Issuer)
	if strings.Contains(other.body, "other.example") {
		t.Errorf("the URL of the caller is repeated: %s", other.body)
	}
}

// A denial by policy names the policy and the command that explains it.
func TestDenialNamesThePolicy(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{broker: brokertest.Config{Policies: map[string][]byte{"p.cedar": []byte(`@id("no-writes") forbid (principal, action == Ebb::Action::"write", resource);
@id("reads") permit (principal, action == Ebb::Action::"read", resource);`)}}})
	b := r.sandbox(t)
	b.ask(t, mustAsk).says(t, "forbidden", "denied by policy no-writes", "ebb policy explain --server --kind "+spec().Kind+" --scope '"+mustAsk+"'")
	b.ask(t, "orders:eu/42:delete").says(t, "no permit", "no policy permits orders:eu/42:delete")
}

// Refusals of the JSON API: the same text whether a thing does not exist or belongs to others.
func TestRefusalsOfTheAPINameTheNextStep(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	get := func(who, path string) *answer { return r.v1(t, who, http.MethodGet, path, nil) }
	foreign := get(brokertest.Runner2, "/v1/tasks/"+b.task)
	foreign.says(t, "a task of another runner", `"`+b.task+`"`, "ebb task list")
	free := broker.NewID(broker.TaskPrefix)
	none := get(brokertest.Runner2, "/v1/tasks/"+free)
	if got, want := strings.ReplaceAll(none.text("detail")+none.steps(), free, b.task), foreign.text("detail")+foreign.steps(); got != want {
		t.Errorf("an unknown task differs from one of others:\n%s\n%s", got, want)
	}
	get(brokertest.Operator, "/v1/tasks/nonsense").says(t, "no id", `"nonsense"`, "tsk_ and 32 of 0-9 a-f")
	secret := get(brokertest.Operator, "/v1/tasks/ebb_tkt_"+strings.Repeat("s", 43))
	if secret.says(t, "a ticket as an id", `"ebb_tkt_..."`); strings.Contains(secret.body, "ssss") {
		t.Errorf("a secret is repeated: %s", secret.body)
	}
	get(brokertest.Auditor, "/v1/requests/req_x").says(t, "no request", `"req_x"`, "ebb requests list")
	get(brokertest.Auditor, "/v1/leases/lse_x").says(t, "no lease", `"lse_x"`, "ebb leases list")
	get(brokertest.Server, "/v1/tasks").says(t, "another role", "runner or operator", "has resource_server", "--key FILE")
	post := func(who, path string, body any) *answer { return r.v1(t, who, http.MethodPost, path, body) }
	open := func(who string, change func(map[string]any)) *answer {
		body := map[string]any{"name": "n", "kind": "k", "ttl_seconds": 60, "ceiling": canRead, "sandbox_expected": map[string]any{"attestor": "enroll"}}
		change(body)
		return post(who, "/v1/tasks", body)
	}
	a := open(brokertest.Runner, put("ceiling", "orderz:x:read"))
	if a.says(t, "an unknown provider in a ceiling", `"orderz"`); strings.Contains(a.body, "configured:") {
		t.Errorf("a runner learns the configured providers: %s", a.body)
	}
	open(brokertest.Operator, put("ceiling", "orderz:x:read")).says(t, "the same as an operator", `"orderz"`, "configured: ", "orders")
	a = open(brokertest.Runner, put("sandbox_expected", map[string]any{"attestor": "enrol"}))
	if !strings.Contains(a.text("detail"), `"enrol" is not configured; configured: `) || !strings.Contains(a.text("detail"), "enroll") {
		t.Errorf("an unknown attestor: %s", a.body)
	}
	post(brokertest.Operator, "/v1/providers/orderz/check", map[string]any{}).says(t, "the check of an unknown provider", `"orderz"`, "Configured: ", "orders")
	post(brokertest.Runner, "/v1/tasks/"+b.task+"/complete", nil)
	post(brokertest.Runner, "/v1/tasks/"+b.task+"/ticket", nil).says(t, "a ticket of a closed task", "its runner completed it", "ebb task open")
	b.ask(t, canRead).says(t, "a completed task", "The task has ended.", "new task")
}

// A ticket for a person: bounds of its lifetime, also at the end of the task.
func TestTicketLifetime(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	open := func(body map[string]any) *answer {
		return r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks", body)
	}
	body := func(ttl any) map[string]any {
		return map[string]any{"name": "n", "kind": "k", "ttl_seconds": 3600, "ceiling": canRead, "sandbox_expected": map[string]any{"attestor": "enroll"}, "ticket": true, "ticket_ttl_seconds": ttl}
	}
	for name, ttl := range map[string]any{"over": 901, "much over": 1 << 40, "negative": -1, "text": "900", "fraction": 1.5} {
		if a := open(body(ttl)); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	alone := body(900)
	delete(alone, "ticket")
	if a := open(alone); a.status != http.StatusBadRequest || !strings.Contains(a.body, "needs the member ticket") {
		t.Errorf("without a ticket: %s", a.body)
	}
	if n := r.tasks(t); n != 0 {
		t.Errorf("%d tasks are open after refusals", n)
	}
	a := open(body(900))
	task := a.json["task"].(map[string]any)["id"].(string)
	for _, q := range []string{"0", "-1", "901", "1m", "%20", "9e2"} {
		if a := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks/"+task+"/ticket?ttl_seconds="+url.QueryEscape(q), nil); a.status != http.StatusBadRequest {
			t.Errorf("ttl_seconds=%s: %d %s", q, a.status, a.body)
		}
	}
	enrol := func(ticket string, ok bool, what string) {
		t.Helper()
		if a := r.enroll(t, brokertest.NewKey(t), map[string]any{"ticket": ticket}); (a.status == http.StatusOK) != ok {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	r.env.Clock.Add(14 * 60e9)
	enrol(a.text("ticket"), true, "after 14 minutes")
	enrol(a.text("ticket"), false, "a second time, with another key")
	early := open(body(900)).text("ticket")
	r.env.Clock.Add(10 * 60e9)
	second := r.restarted(t)  // the live store is refilled from the audit log
	r.env.Clock.Add(3 * 60e9) // proofs of before need no nonce any more
	if a := second.enroll(t, brokertest.NewKey(t), map[string]any{"ticket": early}); a.status != http.StatusOK {
		t.Errorf("after a restart: %d %s", a.status, a.body)
	}
	if a := second.enroll(t, brokertest.NewKey(t), map[string]any{"ticket": early}); a.status == http.StatusOK {
		t.Error("a used ticket enrolled another key after a restart")
	}
	late := open(body(900)).text("ticket")
	r.env.Clock.Add(15*60e9 + 1e9)
	enrol(late, false, "after 15 minutes")
	short := body(900)
	short["ttl_seconds"] = 120
	b := open(short)
	if end := b.json["task"].(map[string]any)["deadline"]; b.text("ticket_expires_at") != end {
		t.Errorf("the ticket lives until %s, its task until %s", b.text("ticket_expires_at"), end)
	}
}
