package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Run runs the tour. The error is nil only if every expectation held.
func Run(ctx context.Context, c Config, started time.Time) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // it takes seconds, more on a loaded machine
	defer cancel()
	s := &stage{Config: c, ctx: ctx, last: started}
	if s.runner, err = s.operator(Runner); err != nil {
		return err
	}
	if s.ann, err = s.operator(Approver); err != nil {
		return err
	}
	if s.auditor, err = s.operator(Auditor); err != nil {
		return err
	}
	if s.ola, err = s.operator(Operator); err != nil {
		return err
	}
	defer func() {
		if s.sandbox != nil {
			err = errors.Join(err, s.sandbox.close())
		}
	}()
	err = steps(s.open, s.read, s.askAndApprove, s.logIn, s.attacks, s.complete, s.boxed, s.prove)
	fmt.Fprintf(c.Out, "\n%d expectations, %d failed, %.1f s\n", s.checks, s.failed, time.Since(started).Seconds())
	if s.left != "" {
		fmt.Fprintln(c.Out, "the act with the sandbox was skipped: see above")
	}
	return err
}
