package history

import (
	"strings"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/transcript"
)

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
		s.Broker.UseCompleted(s.ctx, caller, lease, exchange)
	}
	return nil
}
