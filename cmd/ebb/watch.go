package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/web/client"
)

const (
	leastInterval = 100 * time.Millisecond
	mostInterval  = time.Minute // between two queries while ebb does not answer
)

// lateness is the longest time between a change and the first query that returns
// it: clocks of replicas and of this machine differ.
const lateness = time.Minute

// everyFlag adds the interval of a command that watches.
func everyFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("every", 2*time.Second, "interval between two queries")
}

// watch calls poll until the command is interrupted, and then returns nil. While
// ebb does not answer or sends Retry-After, the interval grows.
func (c *cli) watch(ctx context.Context, every time.Duration, poll func(context.Context) error) error {
	if every < leastInterval {
		return usage("--every "+every.String()+" is too short", "write "+leastInterval.String()+" or more")
	}
	wait, failing := every, false
	for {
		err := poll(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if failing {
				c.sayf("ebb: the server answers again\n")
			}
			wait, failing = every, false
		case exitOf(err) != exitUnavailable:
			return err
		default:
			if !failing {
				c.sayf("ebb: %s\n  -> trying again until it answers; interrupt to stop\n", explain(err))
			}
			wait, failing = min(2*wait, max(every, mostInterval)), true
			if p, answered := errors.AsType[*client.Problem](err); answered {
				wait = max(wait, p.RetryAfter)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait + rand.N(wait/4)): // so that watchers do not query at the same moment
		}
	}
}
