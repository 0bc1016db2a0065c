package demo

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// complete completes the task with one call, and checks that every credential
// of it is refused.
func (s *stage) complete() error {
	s.act("The task ends")
	done, err := s.runner.Tasks.CompleteWithin(s.ctx, s.task, broker.DefaultWait)
	if err == nil && done.Revoked != 3 {
		err = fmt.Errorf("%d credentials were revoked, not 3", done.Revoked)
	}
	if err := s.expect(err, "the runner completes the task: %d credentials revoked in one call", done.Revoked); err != nil {
		return err
	}
	start := time.Now()
	for _, use := range [][2]string{{"read", http.MethodGet}, {"write", http.MethodPut}} {
		err := s.dead(use[0], use[1])
		if err := s.expect(err, "the shop refuses the %s token, %d ms after the response", use[0], time.Since(start).Milliseconds()); err != nil {
			return err
		}
	}
	if err := s.lockedOut(); err != nil {
		return err
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
	s.act("The audit log")
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
	return s.expect(nil, "with one owner changed it is not verified: line %d, %s", fault.Line, fault.Why)
}
