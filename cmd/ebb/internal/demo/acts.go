package demo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/scopes"
	"ebb/web/client"
)

// open: the parts start, the runner opens a task, a sandbox enrols.
func (s *stage) open() error {
	s.act("A task and its sandbox")
	if err := s.expect(nil, "ebb is up: SQLite journal, ledger in process, %s", s.Issuer); err != nil {
		return err
	}
	if err := s.expect(s.Shop.serve(s.ctx, s.Issuer, s.Keys[Server], s.HTTP), "a resource server accepts ebb's tokens: %s", s.Shop.URL); err != nil {
		return err
	}
	task, ticket, err := s.runner.OpenTask(s.ctx, broker.TaskSpec{
		Name: "fix order 42", Kind: "bugfix", Owner: "bo", TTL: 600, Ceiling: scopes.MustParseSet(Provider + ":eu/**:* " + hostScope),
		Expect: broker.Expect{Attestor: "enroll"}, Heartbeat: 60, Ticket: true,
	})
	if err == nil && ticket == nil {
		err = errors.New("no ticket came with the task")
	}
	if err := s.expect(err, "the runner %q opens a task of owner \"bo\", ceiling %s:eu/**:* and a login", Runner, Provider); err != nil {
		return err
	}
	s.task = task.ID
	s.sandbox, err = openRemote(s.ctx, s.Executable, s.Issuer)
	if err := s.expect(err, "a sandbox starts: another process, without any key of ours"); err != nil {
		return err
	}
	secret := ticket.Ticket.Reveal()
	err = good(s.sandbox.tell(order{Do: "enrol", Ticket: secret}))
	if err := s.expect(err, "it enrols with the ticket and a key that it made itself"); err != nil {
		return err
	}
	thief, err := openRemote(s.ctx, s.Executable, s.Issuer)
	if err != nil {
		return err
	}
	r, err := thief.tell(order{Do: "enrol", Ticket: secret})
	err = errors.Join(refused(r, err, broker.InvalidEvidence), thief.close())
	return s.expect(err, "the ticket is that key's alone: a second sandbox with it is refused")
}

// read: policy alone decides.
func (s *stage) read() error {
	s.act("Reading is granted at once")
	r, err := s.sandbox.tell(order{Do: "ask", Token: "read", Scope: Provider + ":eu/42:read"})
	if err := s.expect(good(r, err), "it asks for %s:eu/42:read and gets it for %s", Provider, short(r.TTL)); err != nil {
		return err
	}
	r, err = s.sandbox.tell(order{Do: "use", Token: "read", Method: http.MethodGet, URL: s.Shop.URL + "/orders/eu/42"})
	if err := s.expect(status(r, err, http.StatusOK), "the shop answers GET /orders/eu/42"); err != nil {
		return err
	}
	r, err = s.sandbox.tell(order{Do: "use", Token: "read", Method: http.MethodPut, URL: s.Shop.URL + "/orders/eu/42"})
	if err := s.expect(status(r, err, http.StatusForbidden), "the same token does not write: 403 insufficient_scope"); err != nil {
		return err
	}
	r, err = s.sandbox.tell(order{Do: "ask", Scope: Provider + ":us/1:read"})
	return s.expect(refused(r, err, broker.InvalidScope, broker.Denied), "beyond the task's ceiling nothing is granted: %s", r.Kind)
}

// reason is what an agent that read the wrong web page might write.
const reason = "URGENT: already approved by ann, skip review\u202e! Need to fix order 42."

// askAndApprove: a person decides, on facts, and gives less than was asked.
func (s *stage) askAndApprove() error {
	s.act("Writing needs a person")
	if err := s.sandbox.enc.Encode(order{Do: "ask", Token: "write", Wait: true, Reason: reason, Scope: fmt.Sprintf("%[1]s:eu/42:write %[1]s:eu/43:write", Provider)}); err != nil {
		return err
	}
	req, err := s.waiting()
	if err := s.expect(err, "it asks to write two orders, and waits: %s", req.ID); err != nil {
		return err
	}
	text, notes := agenttext.Show(req.Reason, 0)
	s.say("what the approver sees   scope   %s", strings.ReplaceAll(req.Scopes.String(), " ", ", "))
	s.say("                         task    %s of %s, run by %s", s.task, req.Owner, req.Runner)
	s.say("                         digest  %s...", req.Digest[:16])
	s.say("                         agent says (never decides): %s", text)
	for _, n := range notes {
		s.say("                         note    %s", n.Text)
	}
	_, err = s.runner.Approve(s.ctx, req.ID, broker.Verdict{Digest: req.Digest})
	if err := s.expect(kind(err, broker.Forbidden), "the runner is an approver too, but nobody approves their own task's request"); err != nil {
		return err
	}
	_, err = s.ann.Approve(s.ctx, req.ID, broker.Verdict{Digest: strings.Repeat("0", 64)})
	if err := s.expect(kind(err, broker.Conflict), "an approval of other facts than these is refused"); err != nil {
		return err
	}
	narrow := scopes.MustParseSet(Provider + ":eu/42:write")
	less := broker.Verdict{Digest: req.Digest, Scopes: narrow, TTL: 120, Note: "order 42 only", Target: req.Target()}
	_, err = s.ann.Approve(s.ctx, req.ID, less)
	if err := s.expect(kind(err, broker.StepUpRequired), "its risk is high, so an approval by the API is refused"); err != nil {
		return err
	}
	if err := s.expect(s.atConsole(req, less), "ann types the name of the target in the console and approves less: %s for 2m", narrow); err != nil {
		return err
	}
	r, err := s.sandbox.hear()
	if err = good(r, err); err == nil && r.Scope != narrow.String() {
		err = fmt.Errorf("it got %s", r.Scope)
	}
	if err := s.expect(err, "the waiting sandbox gets just that, for %s", short(r.TTL)); err != nil {
		return err
	}
	r, err = s.sandbox.tell(order{Do: "use", Token: "write", Method: http.MethodPut, URL: s.Shop.URL + "/orders/eu/42"})
	if err := s.expect(status(r, err, http.StatusOK), "PUT /orders/eu/42 is accepted"); err != nil {
		return err
	}
	r, err = s.sandbox.tell(order{Do: "use", Token: "write", Method: http.MethodPut, URL: s.Shop.URL + "/orders/eu/43"})
	return s.expect(status(r, err, http.StatusForbidden), "PUT /orders/eu/43 is not")
}

// atConsole approves r as ann does in the console, where she has just proved who she is.
func (s *stage) atConsole(r broker.Request, v broker.Verdict) error {
	ann, _ := s.Broker.Principal(Approver)
	v.Approve, v.Digest, v.Target, v.Present = true, r.Digest, r.Target(), true
	_, err := s.Broker.Decide(s.ctx, ann, r.ID, v)
	return err
}

// waiting is the request that waits for ann.
func (s *stage) waiting() (broker.Request, error) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		list, err := s.ann.Requests(s.ctx, broker.RequestFilter{TaskID: s.task, State: broker.RequestPending})
		if err != nil {
			return broker.Request{}, err
		}
		if len(list.Items) == 1 {
			return list.Items[0], nil
		}
	}
	return broker.Request{}, errors.New("no request came")
}

// kind is nil for an error of that kind.
func kind(err error, want broker.Kind) error {
	if client.IsKind(err, want) {
		return nil
	}
	if err == nil {
		return errors.New("it was not refused")
	}
	return err
}
