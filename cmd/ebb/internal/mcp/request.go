package mcp

import (
	"context"

	"github.com/ebb-broker/ebb/web/wire"
)

// request implements request_credential. The same request of several calls and
// clients is sent to ebb once.
func (s *Service) request(ctx context.Context, a requestArguments) (outcome, error) {
	f, err := s.desk.ask(a.token())
	if err != nil {
		return outcome{}, err
	}
	told := false
	defer func() { s.desk.left(f, told) }()
	select {
	case <-f.done:
		told = ctx.Err() == nil
		return f.outcome, f.err
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	case <-f.told:
	}
	told = true
	return f.await(ctx, a.Wait)
}

// get implements get_request. It only knows requests of this server: requests
// of other tasks are never looked up.
func (s *Service) get(ctx context.Context, a getArguments) (outcome, error) {
	f := s.desk.find(a.RequestID)
	if f == nil {
		return outcome{}, &fault{kind: wire.KindNotFound, said: "This server has no such request. Call request_credential again: the same arguments find the same request, and no second approval is requested."}
	}
	return f.await(ctx, a.Wait)
}

// await waits up to seconds for the outcome of a request that waits for an
// approval.
func (f *flight) await(ctx context.Context, seconds int) (outcome, error) {
	ctx, cancel := within(ctx, seconds)
	defer cancel()
	select {
	case <-f.done:
		return f.outcome, f.err
	default:
	}
	select {
	case <-f.done:
		return f.outcome, f.err
	case <-ctx.Done():
		return f.waits(), nil
	}
}
