package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// open starts the services; the runner opens a task and a sandbox enrols.
func (s *stage) open() error {
	s.act("A task and its sandbox",
		"ebb task open --name 'fix order 42' --owner bo --scope '"+Provider+":eu/**:*' --ticket",
		"ebb token --key sandbox.key --ticket $TICKET      # in the sandbox")
	if err := s.expect(nil, "ebb is running with SQLite and live state in the process: %s", s.Issuer); err != nil {
		return err
	}
	if err := s.expect(s.Shop.serve(s.ctx, s.Issuer, s.Keys[Server], s.HTTP), "a shop, which is a resource server, accepts ebb's tokens: %s", s.Shop.URL); err != nil {
		return err
	}
	task, ticket, err := s.runner.Tasks.Open(s.ctx, wire.TaskSpec{
		Name: "fix order 42", Kind: "bugfix", Owner: "bo", TTL: 600, Ceiling: Provider + ":eu/**:* " + hostScope,
		Expect: wire.Expect{Attestor: "enroll"}, Heartbeat: 60, Ticket: true,
	})
	if err == nil && ticket == nil {
		err = errors.New("ebb returned no ticket with the task")
	}
	if err := s.expect(err, "the runner %q opens a task for \"bo\"; its ceiling is %s:eu/**:* and one login", Runner, Provider); err != nil {
		return err
	}
	s.task = task.ID
	s.sandbox, err = openRemote(s.ctx, s.Executable, s.Issuer)
	if err := s.expect(err, "a sandbox starts, a separate process without any of ebb's keys"); err != nil {
		return err
	}
	secret := ticket.Ticket.Reveal()
	err = good(s.sandbox.tell(order{Do: "enrol", Ticket: secret}))
	if err := s.expect(err, "it enrols with the ticket and a key that it generated itself"); err != nil {
		return err
	}
	thief, err := openRemote(s.ctx, s.Executable, s.Issuer)
	if err != nil {
		return err
	}
	r, err := thief.tell(order{Do: "enrol", Ticket: secret})
	err = errors.Join(refused(r, err, wire.KindInvalidEvidence), thief.close())
	return s.expect(err, "the ticket is bound to that key now: a second sandbox with the same ticket is refused")
}

// read requests a scope that policy grants without an approval.
func (s *stage) read() error {
	s.act("Reading is granted at once", "ebb token --scope "+Provider+":eu/42:read")
	start := time.Now()
	r, err := s.sandbox.tell(order{Do: "ask", Token: "read", Scope: Provider + ":eu/42:read"})
	if err := s.expect(good(r, err), "it asks for %s:eu/42:read and gets it for %s, after %s", Provider, short(r.TTL), millis(time.Since(start))); err != nil {
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
	return s.expect(refused(r, err, wire.KindInvalidScope, wire.KindDenied), "a scope outside of the task's ceiling is refused: %s", r.Kind)
}

// reason is what a compromised agent could write as its reason.
const reason = "URGENT: already approved by ann, skip review\u202e! Need to fix order 42."

// askAndApprove requests a scope that needs an approval; the approver sees the
// facts and grants less than requested.
func (s *stage) askAndApprove() error {
	s.act("Writing needs an approval",
		"ebb token --scope '"+Provider+":eu/42:write "+Provider+":eu/43:write' --wait      # the sandbox",
		"ebb requests list                                                     # the approver",
		"ebb console")
	if err := s.sandbox.enc.Encode(order{Do: "ask", Token: "write", Wait: true, Reason: reason, Scope: fmt.Sprintf("%[1]s:eu/42:write %[1]s:eu/43:write", Provider)}); err != nil {
		return err
	}
	req, err := s.waiting()
	if err := s.expect(err, "it asks to write two orders, and waits"); err != nil {
		return err
	}
	var agent agenttext.Untrusted
	if err := json.Unmarshal(req.Reason, &agent); err != nil {
		return err
	}
	text, notes := agenttext.Show(agent, 0)
	s.say("The approver sees:")
	s.say("  scope   %s", strings.ReplaceAll(req.Scopes, " ", ", "))
	s.say("  task    %s of %s, run by %s", s.task, req.Owner, req.Runner)
	s.say("  digest  %s...", req.Digest[:16])
	s.say("  reason  %s", text)
	s.say("          (the agent's words: they decide nothing)")
	for _, n := range notes {
		s.say("  note    %s", n.Text)
	}
	_, err = s.runner.Requests.Approve(s.ctx, req.ID, wire.ApprovalBody{Digest: req.Digest})
	if err := s.expect(kind(err, wire.KindForbidden), "the runner is an approver too, but cannot approve a request of its own task"); err != nil {
		return err
	}
	_, err = s.ann.Requests.Approve(s.ctx, req.ID, wire.ApprovalBody{Digest: strings.Repeat("0", 64)})
	if err := s.expect(kind(err, wire.KindConflict), "an approval with another digest is refused"); err != nil {
		return err
	}
	narrow := Provider + ":eu/42:write"
	less := wire.ApprovalBody{Digest: req.Digest, Scopes: narrow, TTL: 120, Note: "order 42 only", Target: target(req)}
	_, err = s.ann.Requests.Approve(s.ctx, req.ID, less)
	if err := s.expect(kind(err, wire.KindStepUpRequired), "the risk is high, so an approval through the API is refused"); err != nil {
		return err
	}
	if err := s.expect(s.atConsole(req, less), "in the console, ann types the target's name and approves less: %s for 2m", narrow); err != nil {
		return err
	}
	r, err := s.sandbox.hear()
	if err = good(r, err); err == nil && r.Scope != narrow {
		err = fmt.Errorf("it got the scope %s", r.Scope)
	}
	if err := s.expect(err, "the sandbox, which asks again every second, gets exactly that scope for %s", short(r.TTL)); err != nil {
		return err
	}
	r, err = s.sandbox.tell(order{Do: "use", Token: "write", Method: http.MethodPut, URL: s.Shop.URL + "/orders/eu/42"})
	if err := s.expect(status(r, err, http.StatusOK), "PUT /orders/eu/42 is accepted"); err != nil {
		return err
	}
	r, err = s.sandbox.tell(order{Do: "use", Token: "write", Method: http.MethodPut, URL: s.Shop.URL + "/orders/eu/43"})
	return s.expect(status(r, err, http.StatusForbidden), "PUT /orders/eu/43 is refused")
}

// atConsole approves r as ann would in the console after a recent sign-in.
func (s *stage) atConsole(r wire.Request, less wire.ApprovalBody) error {
	ann, _ := s.Broker.Principal(Approver)
	narrower, err := scopes.ParseSet(less.Scopes)
	if err != nil {
		return err
	}
	v := broker.Verdict{
		Approve: true, Digest: r.Digest, Scopes: narrower, TTL: broker.Seconds(less.TTL), Note: less.Note, Target: target(r),
		Present: true, Presence: broker.Presence{By: "link", ProvedAt: time.Now().UTC()},
	}
	_, err = s.Broker.Decide(s.ctx, ann, r.ID, v)
	return err
}

// target is the name that an approver types to approve r at the console.
func target(r wire.Request) string {
	return risk.TitleOf(scopes.MustParseSet(r.Scopes), r.Provider).Target
}

// waiting returns the request that waits for ann.
func (s *stage) waiting() (wire.Request, error) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		list, err := s.ann.Requests.List(s.ctx, client.RequestFilter{TaskID: s.task, State: wire.RequestPending})
		if err != nil {
			return wire.Request{}, err
		}
		if len(list.Items) == 1 {
			return list.Items[0], nil
		}
	}
	return wire.Request{}, errors.New("no pending request within 30s")
}

// kind returns nil for an error of the given kind.
func kind(err error, want wire.Kind) error {
	if client.IsKind(err, want) {
		return nil
	}
	if err == nil {
		return errors.New("it was not refused")
	}
	return err
}

// complete completes the task with one call, and checks that every credential
// of it is refused.
func (s *stage) complete() error {
	s.act("The task ends", "ebb task complete $TASK")
	asked := time.Now()
	done, err := s.runner.Tasks.Complete(s.ctx, s.task)
	start := time.Now()
	if err == nil && done.Revoked != 3 {
		err = fmt.Errorf("%d credentials were revoked, not 3", done.Revoked)
	}
	if err := s.expect(err, "the runner completes the task: ebb refuses all %d credentials, after %s", done.Revoked, millis(start.Sub(asked))); err != nil {
		return err
	}
	for _, use := range [][2]string{{"read", http.MethodGet}, {"write", http.MethodPut}} {
		err := s.dead(use[0], use[1])
		if err := s.expect(err, "the shop refuses the %s token, %d ms after the response", use[0], time.Since(start).Milliseconds()); err != nil {
			return err
		}
	}
	r, err := s.sandbox.tell(order{Do: "ask", Scope: Provider + ":eu/42:read"})
	if err = good(r, err); err == nil {
		err = errors.New("it was granted")
	} else {
		err = nil
	}
	if err := s.expect(err, "a new credential for the task is refused: %s", r.Kind); err != nil {
		return err
	}
	if err := s.hostLearns(start); err != nil {
		return err
	}
	list, err := s.auditor.Credentials.List(s.ctx, client.CredentialFilter{TaskID: s.task, State: wire.LeaseLive})
	if err == nil && len(list.Items) != 0 {
		err = fmt.Errorf("%d credentials are live", len(list.Items))
	}
	return s.expect(err, "the auditor finds no live credential")
}

// dead waits until the shop refuses the token, at most 30 s.
func (s *stage) dead(token, method string) error {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		r, err := s.sandbox.tell(order{Do: "use", Token: token, Method: method, URL: s.Shop.URL + "/orders/eu/42"})
		if err = status(r, err, http.StatusUnauthorized); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// prove verifies the audit log, and checks that a changed entry is detected.
func (s *stage) prove() error {
	s.act("The audit log", "ebb audit list --task $TASK", "ebb audit export -f log.jsonl && ebb audit verify log.jsonl --whole")
	if err := s.Checkpoint(s.ctx); err != nil {
		return err
	}
	shown := 0
	for e, err := range s.auditor.Audit.Entries(s.ctx, client.EntryFilter{TaskID: s.task}) {
		if err != nil {
			return s.expect(err, "the auditor reads the audit log")
		}
		s.say("%s  %-23s %s", out.Line(strings.TrimSuffix(e.At[strings.IndexByte(e.At, 'T')+1:], "Z")), out.Line(e.Kind), out.Line(e.Actor))
		shown++
	}
	var export bytes.Buffer
	err := s.auditor.Audit.Export(s.ctx, client.EntryFilter{}, &export)
	if err := s.expect(err, "%d entries about the task; the whole audit log is %d KiB", shown, (export.Len()+1023)>>10); err != nil {
		return err
	}
	keys, err := s.Public()
	if err != nil {
		return err
	}
	report, err := audit.Verify(bytes.NewReader(export.Bytes()), keys)
	if err == nil && (!report.Whole() || report.Unsealed > 0) {
		err = fmt.Errorf("the export is not fully verified: %+v", report)
	}
	if err := s.expect(err, "verified offline: %d entries, %d checkpoint(s), hash chain complete", report.Entries, report.Checkpoints); err != nil {
		return err
	}
	forged := bytes.Replace(export.Bytes(), []byte(`"owner":"bo"`), []byte(`"owner":"me"`), 1)
	_, err = audit.Verify(bytes.NewReader(forged), keys)
	fault, ok := errors.AsType[*audit.Fault](err)
	if !ok {
		return s.expect(errors.New("the changed entry was not detected"), "a changed entry is detected")
	}
	err = s.expect(nil, "with one owner changed the export is not verified, from line %d on:", fault.Line)
	s.say("%s", fault.Why)
	return err
}
