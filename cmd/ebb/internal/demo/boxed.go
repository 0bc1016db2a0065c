package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
)

// boxed runs a hostile program in a sandbox of ebb run: it can do its work and
// nothing else.
func (s *stage) boxed() (err error) {
	s.act("A hostile program in a sandbox")
	if err := s.Payments.serve(s.ctx); err != nil {
		return err
	}
	if _, err := s.ola.Secrets.Put(s.ctx, PaymentsSecret, secret.New(s.Payments.key)); err != nil {
		return s.expect(err, "the operator stores the key of an API in ebb")
	}
	c, err := s.openCage()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	first, err := c.hear("task")
	if err != nil || first.Got == "" {
		if s.left = c.none(); s.left == "" {
			return s.expect(errors.Join(err, errors.New(c.stderr.String())), "ebb run starts the program")
		}
		s.say("left out: %s", s.left)
		return nil
	}
	if err := s.expect(nil, "ebb run starts the program with only a placeholder for the API's key, in task %s...", first.Got[:12]); err != nil {
		return err
	}
	return steps(func() error { return s.rogueWorks(c) }, func() error { return s.rogueSteals(c) }, func() error { return s.rogueGoesOut(c) }, func() error { return s.rogueIsCut(c, first.Got) })
}

// rogueWorks checks that the program can do its work.
func (s *stage) rogueWorks(c *cage) error {
	h, err := c.hear("work")
	if err == nil && !strings.HasPrefix(h.Got, "200 ") {
		err = fmt.Errorf("the program got %s%s", h.Got, h.Error)
	}
	if seen := s.Payments.arrived(); err == nil && (len(seen) != 1 || seen[0].authorization != "Bearer "+s.Payments.key) {
		err = errors.New("the API did not receive its key")
	}
	if err := s.expect(err, "it does its work: GET %s, and the API receives the key", chargePath); err != nil {
		return err
	}
	if strings.Contains(h.Got, s.Payments.key) || !strings.Contains(h.Got, "[redacted]") {
		err = fmt.Errorf("the program got %q", h.Got)
	}
	return s.expect(err, "the API writes the key into its response; the program reads %q", strings.TrimPrefix(h.Got, "200 "+chargePath+" by "))
}

// rogueSteals checks that the program finds no secret in the sandbox.
func (s *stage) rogueSteals(c *cage) error {
	var counts []string
	read := 0
	for _, try := range []string{"processes", "files"} {
		h, err := c.hear(try)
		if err == nil && h.Got == "0" {
			err = errors.New("it could read nothing, so the check proves nothing")
		}
		if err == nil {
			err = s.clean(c, h.Loot)
		}
		if err != nil {
			return s.expect(err, "it finds no secret among %s", try)
		}
		counts, read = append(counts, h.Got), read+len(h.Loot)
	}
	if read >= maxHaul {
		return s.expect(errors.New("the program can read more data than was checked"), "it finds no secret among files")
	}
	if err := s.expect(nil, "it reads %s files of /proc and %s others, %d kB in all: they contain neither the API's key, nor the runner's, nor a token of the user", counts[0], counts[1], read>>10); err != nil {
		return err
	}
	return s.expect(c.nothing("places"), "the user's home, cloud credentials and ebb's data do not exist in the sandbox")
}

// clean returns an error if loot contains one of the secrets of this machine.
func (s *stage) clean(c *cage, loot []byte) error {
	lines := bytes.Split(c.key, []byte("\n"))
	for name, secret := range map[string][]byte{"the key of the API": []byte(s.Payments.key), "a token of the user": []byte(person), "the runner's key": lines[len(lines)-3]} {
		if bytes.Contains(loot, secret) {
			return fmt.Errorf("the program read %s", name)
		}
	}
	return nil
}

// rogueGoesOut checks that the egress proxy lets only the program's work
// through.
func (s *stage) rogueGoesOut(c *cage) error {
	if err := s.expect(errors.Join(c.nothing("network"), c.nothing("names")), "it reaches neither the metadata service, the internet, name servers nor ebb: there is no network"); err != nil {
		return err
	}
	h, err := c.hear("proxy")
	if got := strings.Fields(h.Got); err == nil && (len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return s < "400" || s > "499" })) {
		err = fmt.Errorf("the proxy answered %s", h.Got)
	}
	if err := s.expect(err, "the proxy refuses the metadata service, IP addresses and ebb itself"); err != nil {
		return err
	}
	for _, try := range []struct{ name, what string }{
		{"metadata", "it requests the metadata service by name: refused"}, {"elsewhere", "it sends the placeholder to another server: refused"}, {"unescorted", "it uses the key of the attacker's account, to store data there: refused"},
		{"beyond", "it requests a refund, which the credential does not cover: refused"}, {"query", "it puts the placeholder into the query, which servers log: refused"},
	} {
		h, err := c.hear(try.name)
		if err == nil && !h.refused() {
			err = fmt.Errorf("the program got %s%s", h.Got, h.Error)
		}
		// The program runs ahead of the tour: the stream that it reads later may
		// have begun.
		if more := slices.DeleteFunc(s.Payments.arrived()[1:], func(r sent) bool { return r.path == followPath }); err == nil && len(more) != 0 {
			err = fmt.Errorf("the API received %+v", more)
		}
		if err := s.expect(err, "%s", try.what); err != nil {
			return err
		}
	}
	return nil
}

// rogueIsCut checks that completing the task ends the program's stream,
// credential and sandbox.
func (s *stage) rogueIsCut(c *cage, task string) error {
	if h, err := c.hear("follow"); err != nil || h.Got == "" {
		return s.expect(errors.Join(err, errors.New(h.Error)), "it reads a stream of the API")
	}
	ctx, cancel := context.WithTimeout(s.ctx, 40*time.Second)
	defer cancel()
	_, err := s.runner.Tasks.Complete(ctx, task)
	start := time.Now()
	if err == nil {
		_, err = c.hear("cut")
	}
	took := time.Since(start)
	if err == nil && took > 10*broker.ConfirmTimeout { // an overloaded machine may be late
		err = errors.New("the stream was cut too late")
	}
	if err := s.expect(err, "it reads a stream; the runner completes the task: cut off %d ms after the response", took.Milliseconds()); err != nil {
		return err
	}
	h, err := c.hear("after")
	if err == nil && strings.HasPrefix(h.Got, "200") {
		err = fmt.Errorf("the program got %s", h.Got)
	}
	if err := s.expect(err, "its placeholder is no longer accepted"); err != nil {
		return err
	}
	if err := s.expect(c.run.Wait(), "the sandbox has ended"); err != nil {
		return err
	}
	counts := map[string]int{}
	for e, err := range s.auditor.Audit.Entries(s.ctx, client.EntryFilter{TaskID: task}) {
		if err != nil {
			return s.expect(err, "the auditor reads the audit log")
		}
		counts[e.Kind]++
	}
	if counts[audit.EgressAllowed] != 2 || counts[audit.EgressDenied] == 0 {
		err = fmt.Errorf("the audit log has %v", counts)
	}
	return s.expect(err, "the audit log has %d requests with the key, and %d that egress refused", counts[audit.EgressAllowed], counts[audit.EgressDenied])
}
