package policies

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/policyadmin"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// policyAsk is the form that tests a request against the policies, and its
// result. It is a GET form, so that people can share the address of a result.
type policyAsk struct {
	Kind, Owner, Provider, Resource, Action, Minutes string
	Taint, Attestor, Class, Selectors, Labels        string
	Violations, Delivery, Draft                      string

	Providers, Attestors []string
	Classes              []string
	Drafts               []policyset.Draft
	Problem              string
	Answers              []policyAnswer
	Verdict              string // WIDER, NARROWER or SAME; "" = no draft
	Diff                 []string
}

// policyAnswer is the result for one policy set.
type policyAnswer struct {
	Set, Effect, Tone string
	Rows              []shell.Line
	Rules             []policy.Verdict
}

func (ps *Pages) policyAsk(a *list.Query) policyAsk {
	in := policyAsk{
		Kind: a.Text("kind"), Owner: a.Text("owner"), Provider: a.Text("provider"), Resource: a.Text("resource"), Action: a.Text("action"), Minutes: a.Text("minutes"),
		Taint: a.Text("taint"), Attestor: a.Text("attestor"), Class: a.Text("class"), Selectors: a.Text("selectors"), Labels: a.Text("labels"),
		Violations: a.Text("violations"), Delivery: a.Text("delivery"), Draft: a.Text("draft"),
		Providers: ps.Broker.ProviderNames(), Attestors: ps.Broker.AttestorNames(),
	}
	for _, c := range []attest.Class{attest.ClassHardware, attest.ClassKernel, attest.ClassSigned, attest.ClassTicket, attest.ClassBearer} {
		in.Classes = append(in.Classes, string(c))
	}
	return in
}

func (in policyAsk) asked() bool { return in.Resource != "" || in.Action != "" }

// query returns the form as a policy query, or the problem as a sentence for the page.
func (in policyAsk) query() (q policy.Query, problem string) {
	s, err := scopes.ParseSet(in.Provider + ":" + in.Resource + ":" + in.Action)
	if err != nil {
		return policy.Query{}, "The scope is invalid: " + shell.OneLine(err.Error()) + "."
	}
	ttl, ok := minutesOf(in.Minutes, 15*time.Minute)
	if !ok {
		return policy.Query{}, "Minutes must be a whole number from 1 to 1440."
	}
	violations := 0
	if in.Violations != "" {
		if violations, err = strconv.Atoi(in.Violations); err != nil || violations < 0 {
			return policy.Query{}, "Violations must be a whole number, 0 or more."
		}
	}
	selectors, ok := pairsOf(in.Selectors)
	labels, ok2 := pairsOf(in.Labels)
	if !ok || !ok2 {
		return policy.Query{}, "Write selectors and labels as name=value, separated by commas."
	}
	q = policy.Query{
		Sandbox: policy.Sandbox{ID: "sbx_explain", Attestor: in.Attestor, Evidence: in.Class, Subject: "somebody", Selectors: selectors},
		Task:    policy.Task{ID: "tsk_explain", Kind: in.Kind, Owner: in.Owner, Labels: labels}, Scopes: s, TTL: ttl,
		Binding: policy.BindingDPoP, Delivery: in.Delivery, Record: policy.Record{Violations: violations},
	}
	if q.Sandbox.Attestor == "" && len(in.Attestors) > 0 { // the form preselects the first
		q.Sandbox.Attestor = in.Attestors[0]
	}
	if !slices.Contains([]string{"", policy.DeliveryToken, policy.DeliveryEgress}, in.Delivery) {
		return policy.Query{}, "delivery must be token, egress or empty."
	}
	if !slices.Contains(in.Providers, in.Provider) {
		return policy.Query{}, "Choose a provider."
	}
	for _, t := range strings.Split(in.Taint, ",") {
		if t = strings.TrimSpace(t); t != "" {
			q.Taint = append(q.Taint, t)
		}
	}
	return q, ""
}

func pairsOf(text string) (map[string]string, bool) {
	out := map[string]string{}
	for _, p := range strings.Split(text, ",") {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return nil, false
		}
		out[name] = value
	}
	return out, true
}

// answerAsk computes the result of the form, or the problem with it.
func (ps *Pages) answerAsk(ctx context.Context, v *session.Visit, in *policyAsk) (status int, err error) {
	q, problem := in.query()
	if problem != "" {
		in.Problem = problem
		return http.StatusUnprocessableEntity, nil
	}
	out, err := ps.Broker.TryPolicies(ctx, v.Principal, q, in.Draft)
	if e := broker.AsError(err); e != nil {
		if e.Kind != broker.Invalid {
			return 0, err
		}
		in.Problem = e.Public
		return http.StatusUnprocessableEntity, nil
	}
	in.Answers = append(in.Answers, answerOf("In force", out.Live))
	if out.Draft != nil {
		in.Answers, in.Diff = append(in.Answers, answerOf("Draft", *out.Draft)), out.Diff
		switch in.Verdict = "SAME"; {
		case out.Wider:
			in.Verdict = "WIDER"
		case out.Narrower:
			in.Verdict = "NARROWER"
		}
	}
	return http.StatusOK, nil
}

// effects are the visible names and CSS classes of decisions.
var effects = map[policy.Effect][2]string{policy.Allow: {"GRANTED", "good"}, policy.Ask: {"NEEDS APPROVAL", "warn"}, policy.Deny: {"DENIED", "bad"}}

func answerOf(set string, a policyadmin.PolicyAnswer) policyAnswer {
	d := a.Decision
	out := policyAnswer{Set: set, Effect: effects[d.Effect][0], Tone: effects[d.Effect][1]}
	add := func(label, text string) {
		if text != "" {
			out.Rows = append(out.Rows, shell.Line{Label: label, Text: agenttext.Name(text), Name: true})
		}
	}
	if d.Ask != nil {
		for _, r := range d.Ask.Rules {
			add("Approval", strconv.Itoa(max(r.Quorum, 1))+" of "+strings.Join(r.Groups, ", ")+" ("+r.ID+")")
		}
	}
	add("Rules", strings.Join(d.Rules, ", "))
	add("Why", strings.Join(d.Why, " "))
	if d.Effect != policy.Deny {
		add("For", shell.Span(d.TTL))
	}
	if d.Deliver == policy.DeliveryEgress {
		add("Delivered", "through egress only")
	}
	add("Without approval", noQuestion(a))
	for _, part := range a.Scopes {
		for _, p := range part.Policies {
			if p.Matches != "no" {
				p.ID, p.File, p.Reason = agenttext.Name(p.ID), agenttext.Name(p.File), agenttext.Name(p.Reason)
				out.Rules = append(out.Rules, p)
			}
		}
	}
	return out
}

// noQuestion returns the largest scope at the provider that is granted without approval.
func noQuestion(a policyadmin.PolicyAnswer) string {
	if a.Granted.Empty() {
		return "nothing is granted without approval"
	}
	return a.Granted.String() + ", " + shell.Span(a.GrantedTTL)
}
