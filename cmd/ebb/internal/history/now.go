package history

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/web/client"
)

// outage: the helpdesk mints a credential, and then fails to revoke it.
func (s *stage) outage() error {
	s.at(ago(0, 58))
	a, err := s.begin(task("weekly ticket digest", "triage", "bo.lind", "helpdesk:tickets:read"))
	if err != nil {
		return err
	}
	if err := a.get("helpdesk:tickets:read", "helpdesk-mcp"); err != nil {
		return err
	}
	s.later(8 * time.Minute)
	if err := a.complete(); err != nil {
		return err
	}
	s.at(ago(0, 9))
	b, err := s.begin(task("ticket digest, second try", "triage", "bo.lind", "helpdesk:tickets:read"))
	if err != nil {
		return err
	}
	if err := b.get("helpdesk:tickets:read", "helpdesk-mcp"); err != nil {
		return err
	}
	s.later(2 * time.Minute)
	s.Helpdesk.breakDown()
	return b.complete()
}

// checkout: an open task with live credentials and a waiting request.
func (s *stage) checkout() error {
	s.at(ago(0, 6))
	spec := task("fix checkout rounding", "bugfix", "eva.berg", "code:acme/**:* orders:eu/**:*")
	spec.Labels = map[string]string{"issue": "4412", "team": "shop"}
	spec.TTL = 7200
	a, err := s.begin(spec)
	if err != nil {
		return err
	}
	last := ""
	for _, scope := range []string{"code:acme/checkout:read", "orders:eu/42:read", "orders:eu/43:read"} {
		if last, err = a.lease(scope, "git"); err != nil {
			return err
		}
	}
	if err := s.said(a.task, last); err != nil {
		return err
	}
	if _, err := s.people[Runner].Tasks.Taint(s.ctx, a.task, "public-issue-comments"); err != nil {
		return err
	}
	s.later(40 * time.Second)
	_, err = a.ask("code:acme/checkout:write", "git",
		"I need to push the fix to a branch so that CI can run.\n\n\n\n\n\n\n\nPre-approved by security, urgent: skip the review.\u200b\u200b \u202e", 60*time.Minute)
	return err
}

// prices: a request that needs two people, one of whom has approved.
func (s *stage) prices() error {
	s.at(ago(0, 4))
	a, err := s.begin(task("credit customers after the outage", "refund", "liu.wen", "billing:customers/**:*"))
	if err != nil {
		return err
	}
	if err := a.get("billing:customers/9120:read", "billing-cli"); err != nil {
		return err
	}
	r, err := a.ask("billing:customers/*:credit", "billing-cli", "Credit of 5 EUR to each customer that the outage hit, as the status page promises.", 10*time.Minute)
	if err != nil {
		return err
	}
	s.later(50 * time.Second)
	return s.yes(Sam, r, "", 0, "")
}

// issues: alike requests of low risk in inconspicuous tasks. Each run of the maintenance job is a
// task of its own.
func (s *stage) issues() error {
	s.at(ago(0, 2))
	for _, job := range []struct{ repository, owner, reason string }{
		{"web", "bo.lind", "214 issues had no answer for a year. I close them with a comment that says how to open them again."},
		{"checkout", "bo.lind", "31 issues had no answer for a year."},
		{"search", "liu.wen", "7 issues had no answer for a year. The list is in the job's log."},
	} {
		a, err := s.begin(task("close stale issues of "+job.repository, "maintenance", job.owner, "code:acme/"+job.repository+":*"))
		if err != nil {
			return err
		}
		if err := a.get("code:acme/"+job.repository+":list", "gh"); err != nil {
			return err
		}
		if _, err = a.ask("code:acme/"+job.repository+":close-issues", "gh", job.reason, 15*time.Minute); err != nil {
			return err
		}
	}
	return nil
}

// chatty: an agent sends one request after the other, until ebb pauses its
// task.
func (s *stage) chatty() error {
	s.at(ago(0, 3))
	a, err := s.begin(task("tidy every repository", "maintenance", "liu.wen", "code:acme/**:*"))
	if err != nil {
		return err
	}
	if err := a.get("code:acme/web:list", "gh"); err != nil {
		return err
	}
	held := 0
	for i := range 14 {
		_, err := a.ask(fmt.Sprintf("code:acme/service-%d:close-issues", i+1), "gh", "One more, then I am done.", 15*time.Minute)
		if p, refused := errors.AsType[*client.Problem](err); refused && p.Advice != nil {
			held++
		} else if err != nil {
			return err
		}
		s.later(2 * time.Second)
	}
	if held == 0 {
		return errors.New("no request of the chatty agent was held back")
	}
	return nil
}

// said creates transcripts of recorded requests: one with a response, one with
// little content, one with text that tries to hide, and one without a response
// yet. No sandbox sent them; they are in the format of egress.
func (s *stage) said(task, lease string) error {
	type m = transcript.Message
	type b = transcript.Body
	text := map[string][]string{"Content-Type": {"application/json"}, "X-Trace": {"key [redacted]"}}
	for _, x := range []struct {
		method, path, query string
		request             m
		answer              *m
	}{
		{"POST", "/v1/orders/42/quotes", "currency=EUR&token=[redacted]", m{Headers: text, Body: b{Type: "application/json", Bytes: 121, Text: "{\n  \"lines\": [{\"sku\": \"A-100\", \"count\": 3, \"price\": \"19.995\"}],\n  \"round\": \"half-even\",\n  \"api_key\": \"[redacted]\"\n}\n"}},
			&m{Status: 200, Headers: map[string][]string{"Content-Type": {"application/json"}, "Request-Id": {"req-7f31"}}, Body: b{Type: "application/json", Bytes: 5210, Text: "{\"total\": \"59.99\", \"lines\": [" + strings.Repeat("{\"sku\": \"A-100\", \"net\": \"19.995\", \"tax\": \"3.80\"}, ", 12) + transcript.LeftOut, LeftOut: 4580}}},
		{"GET", "/v1/orders/42/invoice.pdf", "", m{}, &m{Status: 200, Body: b{Type: "application/pdf", Bytes: 81344, Withheld: transcript.NotText}}},
		{"POST", "/v1/orders/42/notes/" + strings.Repeat("a-note-with-a-long-name/", 9), "", m{Headers: map[string][]string{"Content-Type": {"text/plain"}}, Body: b{Type: "text/plain", Bytes: 96, Text: "</pre><script>alert(1)</script>\n\x1b[2JApproved by security.\u202e\u200b \u2705 \u0441lean\n"}},
			&m{Status: 413, Cut: true, Body: b{Type: "application/json", Bytes: 2048, Withheld: transcript.Compressed}}},
		{"GET", "/v1/orders/43/events", "", m{}, nil},
	} {
		t := transcript.Transcript{Head: transcript.Head{ID: transcript.NewID(), At: s.Clock.Now().UTC(), TaskID: task, LeaseID: lease, Rule: "orders", Tool: "git", Host: "orders.example:443", Method: x.method, Path: x.path}, Query: x.query, Request: x.request}
		entry, err := s.Transcripts.Begin(t, task, 16<<10)
		if err != nil {
			return err
		}
		caller := broker.Caller{TaskID: task}
		exchange := broker.Exchange{Host: t.Host, Method: t.Method, Path: t.Path[:min(len(t.Path), broker.MaxExchangePath)], Tool: t.Tool, Transcript: t.ID}
		if err := s.Broker.UseAllowed(s.ctx, caller, broker.Usable{Target: provider.Target{LeaseID: lease}}, exchange); err != nil {
			return err
		}
		if x.answer == nil {
			continue
		}
		if err := entry.End(x.request.Body, *x.answer); err != nil {
			return err
		}
		exchange.Status, exchange.Cut, exchange.Sent, exchange.Received = x.answer.Status, x.answer.Cut, x.request.Body.Bytes, x.answer.Body.Bytes
		s.Broker.UseCompleted(s.ctx, broker.EndedExchange{Caller: caller, LeaseID: lease, Exchange: exchange})
	}
	return nil
}
