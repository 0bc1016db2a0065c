package demo

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/cmd/ebb/internal/out"
)

// complete: one call, and nothing of the task is alive.
func (s *stage) complete() error {
	s.act("The task ends")
	done, err := s.runner.CompleteWithin(s.ctx, s.task, broker.DefaultWait)
	if err == nil && done.Revoked != 3 {
		err = fmt.Errorf("%d credentials were revoked, not 3", done.Revoked)
	}
	if err := s.expect(err, "the runner completes it: %d credentials revoked in one call", done.Revoked); err != nil {
		return err
	}
	start := time.Now()
	for _, use := range [][2]string{{"read", http.MethodGet}, {"write", http.MethodPut}} {
		err := s.dead(use[0], use[1])
		if err := s.expect(err, "the shop refuses the %s token, %d ms after the answer", use[0], time.Since(start).Milliseconds()); err != nil {
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
	if err := s.expect(err, "nothing mints for the task any more: %s", r.Kind); err != nil {
		return err
	}
	list, err := s.auditor.Leases(s.ctx, broker.LeaseFilter{TaskID: s.task, State: broker.LeaseLive})
	if err == nil && len(list.Items) != 0 {
		err = fmt.Errorf("%d credentials are live", len(list.Items))
	}
	return s.expect(err, "the auditor finds no live credential")
}

// dead waits until the shop has heard of the end.
func (s *stage) dead(token, method string) error {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		r, err := s.sandbox.tell(order{Do: "use", Token: token, Method: method, URL: s.Shop.URL + "/orders/eu/42"})
		if err = status(r, err, http.StatusUnauthorized); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// prove: the record says what happened, and cannot say anything else.
func (s *stage) prove() error {
	s.act("The record")
	if err := s.Checkpoint(s.ctx); err != nil {
		return err
	}
	shown := 0
	for e, err := range s.auditor.Audit(s.ctx, broker.EntryFilter{TaskID: s.task}) {
		if err != nil {
			return s.expect(err, "the auditor reads the record")
		}
		s.say("%s  %-23s %s", e.At.UTC().Format("15:04:05.000"), out.Line(e.Kind), out.Line(e.Actor))
		shown++
	}
	var export bytes.Buffer
	err := s.auditor.Export(s.ctx, broker.EntryFilter{}, &export)
	if err := s.expect(err, "%d entries about the task; the whole record is %d KiB", shown, (export.Len()+1023)>>10); err != nil {
		return err
	}
	keys, err := s.Public()
	if err != nil {
		return err
	}
	report, err := audit.Verify(bytes.NewReader(export.Bytes()), keys)
	if err == nil && (!report.Whole() || report.Unsealed > 0) {
		err = fmt.Errorf("not all of it is proved: %+v", report)
	}
	if err := s.expect(err, "verified offline: %d entries, %d checkpoint(s), hash chain whole", report.Entries, report.Checkpoints); err != nil {
		return err
	}
	forged := bytes.Replace(export.Bytes(), []byte(`"owner":"bo"`), []byte(`"owner":"me"`), 1)
	_, err = audit.Verify(bytes.NewReader(forged), keys)
	fault, ok := errors.AsType[*audit.Fault](err)
	if !ok {
		return s.expect(errors.New("the forgery was not found"), "a forged line is found")
	}
	return s.expect(nil, "with one owner changed it is not: line %d, %s", fault.Line, fault.Why)
}
