package broker

import (
	"context"
	"time"

	"ebb/broker/pace"
)

const (
	// crowdPlaces is how many mints, and how many introspections, are worked on at one time. One
	// address or principal has half of them at most.
	crowdPlaces = 256
	// crowdWait is how long a request waits for its place. With the work of those before it that
	// keeps an answer below a second; a client that is told to come again is served sooner than
	// one that waits behind all others.
	crowdWait = 500 * time.Millisecond
)

// crowd bounds what waits for the processor and the stores. Ends, revocations and heartbeats pass
// without a place, and nothing keeps its place while a third party is asked.
type crowd struct{ mints, introspections *pace.Gate }

func newCrowd() crowd { return crowd{pace.NewGate(crowdPlaces), pace.NewGate(crowdPlaces)} }

// enterCrowd waits for a place in g, in the order of arrival. leave may be called more than once.
func (b *Broker) enterCrowd(ctx context.Context, g *pace.Gate, name string) (leave func(), err error) {
	wait, stop := context.WithTimeout(ctx, crowdWait)
	defer stop()
	if leave, err = g.Enter(wait, name); err != nil {
		b.m.shed.Inc()
		return nil, &Error{Kind: Unavailable, Public: "Too many requests wait here. Nothing was done; try again shortly.", Cause: err, RetryAfter: time.Second}
	}
	return leave, nil
}
