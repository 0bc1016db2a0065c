package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/provider"
)

// boxed: a hostile program in a box, which gets its work done and nothing else.
func (s *stage) boxed() (err error) {
	s.act("A hostile program in a box")
	if err := s.Payments.serve(s.ctx); err != nil {
		return err
	}
	if _, err := s.ola.PutSecret(s.ctx, PaymentsSecret, provider.NewSecret(s.Payments.key)); err != nil {
		return s.expect(err, "the operator gives ebb the key of an API")
	}
	c, err := s.openCage()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	first, err := c.hear("task")
	if err != nil || first.Got == "" {
		if s.left = c.none(); s.left == "" {
			return s.expect(errors.Join(err, errors.New(c.stderr.String())), "ebb run starts it")
		}
		s.say("left out: %s", s.left)
		return nil
	}
	if err := s.expect(nil, "ebb run starts it: all it has is a placeholder of the API's key, in task %s...", first.Got[:12]); err != nil {
		return err
	}
	return steps(func() error { return s.rogueWorks(c) }, func() error { return s.rogueSteals(c) }, func() error { return s.rogueGoesOut(c) }, func() error { return s.rogueIsCut(c, first.Got) })
}

// rogueWorks: what the program is for, it can do.
func (s *stage) rogueWorks(c *cage) error {
	h, err := c.hear("work")
	if err == nil && !strings.HasPrefix(h.Got, "200 ") {
		err = fmt.Errorf("it got %s%s", h.Got, h.Error)
	}
	if seen := s.Payments.arrived(); err == nil && (len(seen) != 1 || seen[0].authorization != "Bearer "+s.Payments.key) {
		err = errors.New("the API did not see its key")
	}
	if err := s.expect(err, "it does its work: GET %s, and the API sees the key", chargePath); err != nil {
		return err
	}
	if strings.Contains(h.Got, s.Payments.key) || !strings.Contains(h.Got, "[redacted]") {
		err = fmt.Errorf("it got %q", h.Got)
	}
	return s.expect(err, "the API writes the key into its answer; the box reads %q", strings.TrimPrefix(h.Got, "200 "+chargePath+" by "))
}

// rogueSteals: in the box there is nothing to find.
func (s *stage) rogueSteals(c *cage) error {
	var counts []string
	read := 0
	for _, try := range []string{"processes", "files"} {
		h, err := c.hear(try)
		if err == nil && h.Got == "0" {
			err = errors.New("it read nothing, which proves nothing")
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
		return s.expect(errors.New("there is more to read than was looked into"), "it finds no secret among files")
	}
	if err := s.expect(nil, "it reads %s files of /proc and %s others, %d kB in all: neither the API's key, nor the runner's, nor the person's password", counts[0], counts[1], read>>10); err != nil {
		return err
	}
	return s.expect(c.nothing("places"), "the person's home, cloud credentials and ebb's data are not there")
}

// clean is nil when none of the secrets of this machine is in the loot.
func (s *stage) clean(c *cage, loot []byte) error {
	lines := bytes.Split(c.key, []byte("\n"))
	for name, secret := range map[string][]byte{"the key of the API": []byte(s.Payments.key), "a secret of the person": []byte(person), "the runner's key": lines[len(lines)-3]} {
		if bytes.Contains(loot, secret) {
			return fmt.Errorf("it has %s", name)
		}
	}
	return nil
}

// rogueGoesOut: the one way out is for its work alone.
func (s *stage) rogueGoesOut(c *cage) error {
	if err := s.expect(errors.Join(c.nothing("network"), c.nothing("names")), "the metadata service, the internet, name servers and ebb itself: there is no network"); err != nil {
		return err
	}
	h, err := c.hear("proxy")
	if got := strings.Fields(h.Got); err == nil && (len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return s < "400" || s > "499" })) {
		err = fmt.Errorf("the proxy answered %s", h.Got)
	}
	if err := s.expect(err, "through the proxy: the metadata service, addresses, ebb itself: refused"); err != nil {
		return err
	}
	for _, try := range []struct{ name, what string }{
		{"metadata", "the metadata service by its name: refused"}, {"elsewhere", "it sends the placeholder to another server: refused"}, {"unescorted", "it brings the key of an account of its own, to leave something there: refused"},
		{"beyond", "it asks for a refund, which the credential is not for: refused"}, {"query", "it puts the placeholder where servers log it: refused"},
	} {
		h, err := c.hear(try.name)
		if err == nil && !h.refused() {
			err = fmt.Errorf("it got %s%s", h.Got, h.Error)
		}
		if seen := s.Payments.arrived(); err == nil && len(seen) != 1 {
			err = fmt.Errorf("the API saw %+v", seen[1:])
		}
		if err := s.expect(err, "%s", try.what); err != nil {
			return err
		}
	}
	return nil
}

// rogueIsCut: with its task, everything of it ends.
func (s *stage) rogueIsCut(c *cage, task string) error {
	if h, err := c.hear("follow"); err != nil || h.Got == "" {
		return s.expect(errors.Join(err, errors.New(h.Error)), "it follows a stream of the API")
	}
	ctx, cancel := context.WithTimeout(s.ctx, 40*time.Second)
	defer cancel()
	_, err := s.runner.Complete(ctx, task)
	start := time.Now()
	if err == nil {
		_, err = c.hear("cut")
	}
	took := time.Since(start)
	if err == nil && took > 10*broker.Silence { // a machine with much else to do is late by itself
		err = errors.New("it was cut too late")
	}
	if err := s.expect(err, "it follows a stream; the runner completes the task: cut %d ms after the answer", took.Milliseconds()); err != nil {
		return err
	}
	h, err := c.hear("after")
	if err == nil && strings.HasPrefix(h.Got, "200") {
		err = fmt.Errorf("it got %s", h.Got)
	}
	if err := s.expect(err, "its placeholder opens nothing any more"); err != nil {
		return err
	}
	if err := s.expect(c.run.Wait(), "the box is gone"); err != nil {
		return err
	}
	counts := map[string]int{}
	for e, err := range s.auditor.Audit(s.ctx, broker.EntryFilter{TaskID: task}) {
		if err != nil {
			return s.expect(err, "the auditor reads the record")
		}
		counts[e.Kind]++
	}
	if counts[audit.EgressAllowed] != 2 || counts[audit.EgressDenied] == 0 {
		err = fmt.Errorf("on the record are %v", counts)
	}
	return s.expect(err, "on the record: %d requests with the key, and %d that did not leave", counts[audit.EgressAllowed], counts[audit.EgressDenied])
}
