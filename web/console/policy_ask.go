package console

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ebb/attest"
	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/broker/policyset"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// policyAsk is the form "what would happen", and its answer. It is a GET: the question is
// in the address, so that it can be sent to somebody else.
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

// policyAnswer is what one set says.
type policyAnswer struct {
	Set, Effect, Tone string
	Rows              []line
	Rules             []policy.Verdict
}

func (s *Console) policyAsk(a *asked) policyAsk {
	in := policyAsk{
		Kind: a.text("kind"), Owner: a.text("owner"), Provider: a.text("provider"), Resource: a.text("resource"), Action: a.text("action"), Minutes: a.text("minutes"),
		Taint: a.text("taint"), Attestor: a.text("attestor"), Class: a.text("class"), Selectors: a.text("selectors"), Labels: a.text("labels"),
		Violations: a.text("violations"), Delivery: a.text("delivery"), Draft: a.text("draft"),
		Providers: s.b.ProviderNames(), Attestors: s.b.AttestorNames(),
	}
	for _, c := range []attest.Class{attest.ClassHardware, attest.ClassKernel, attest.ClassSigned, attest.ClassTicket, attest.ClassBearer} {
		in.Classes = append(in.Classes, string(c))
	}
	return in
}

func (in policyAsk) asked() bool { return in.Resource != "" || in.Action != "" }

// query is the question as policy is asked, or what is wrong with it: a sentence for the page.
func (in policyAsk) query() (q policy.Query, problem string) {
	s, err := scopes.ParseSet(in.Provider + ":" + in.Resource + ":" + in.Action)
	if err != nil {
		return policy.Query{}, "This is no scope: " + oneLine(err.Error()) + "."
	}
	ttl, ok := minutesOf(in.Minutes, 15*time.Minute)
	if !ok {
		return policy.Query{}, "Minutes are a whole number from 1 to 1440."
	}
	violations := 0
	if in.Violations != "" {
		if violations, err = strconv.Atoi(in.Violations); err != nil || violations < 0 {
			return policy.Query{}, "Violations are a whole number."
		}
	}
	selectors, ok := pairsOf(in.Selectors)
	labels, ok2 := pairsOf(in.Labels)
	if !ok || !ok2 {
		return policy.Query{}, "Selectors and labels are written name=value, with commas between."
	}
	q = policy.Query{
		Sandbox: policy.Sandbox{ID: "sbx_explain", Attestor: in.Attestor, Evidence: in.Class, Subject: "somebody", Selectors: selectors},
		Task:    policy.Task{ID: "tsk_explain", Kind: in.Kind, Owner: in.Owner, Labels: labels}, Scopes: s, TTL: ttl,
		Binding: policy.BindingDPoP, Delivery: in.Delivery, Record: policy.Record{Violations: violations},
	}
	if q.Sandbox.Attestor == "" && len(in.Attestors) > 0 { // the form names the first
		q.Sandbox.Attestor = in.Attestors[0]
	}
	if !slices.Contains([]string{"", policy.DeliveryToken, policy.DeliveryEgress}, in.Delivery) {
		return policy.Query{}, "It is handed out, stays in ebb, or goes as ebb would deliver it."
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

// answerAsk answers the form, or says what is wrong with it.
func (s *Console) answerAsk(ctx context.Context, v *visit, in *policyAsk) (status int, err error) {
	q, problem := in.query()
	if problem != "" {
		in.Problem = problem
		return http.StatusUnprocessableEntity, nil
	}
	out, err := s.b.TryPolicies(ctx, v.Principal, q, in.Draft)
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

// effects are the answers of a set, in words, and how loud they are drawn.
var effects = map[policy.Effect][2]string{policy.Allow: {"GRANTED", "good"}, policy.Ask: {"ASK", "warn"}, policy.Deny: {"DENIED", "bad"}}

func answerOf(set string, a broker.PolicyAnswer) policyAnswer {
	d := a.Decision
	out := policyAnswer{Set: set, Effect: effects[d.Effect][0], Tone: effects[d.Effect][1]}
	add := func(label, text string) {
		if text != "" {
			out.Rows = append(out.Rows, line{Label: label, Text: agenttext.Name(text), Name: true})
		}
	}
	if d.Ask != nil {
		for _, r := range d.Ask.Rules {
			add("Asks", strconv.Itoa(max(r.Quorum, 1))+" of "+strings.Join(r.Groups, ", ")+" ("+r.ID+")")
		}
	}
	add("Rule", strings.Join(d.Rules, ", "))
	add("Why", strings.Join(d.Why, " "))
	if d.Effect != policy.Deny {
		add("For", span(d.TTL))
	}
	if d.Deliver == policy.DeliveryEgress {
		add("Delivered", "through egress alone")
	}
	add("No question", noQuestion(a))
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

// noQuestion is the largest scope at the provider that is granted with no question.
func noQuestion(a broker.PolicyAnswer) string {
	if a.Granted.Empty() {
		return "nothing is granted without one"
	}
	return a.Granted.String() + ", " + span(a.GrantedTTL)
}
