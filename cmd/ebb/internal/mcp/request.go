package mcp

import (
	"context"

	"ebb/broker"
)

// request is request_credential. ebb is asked once for one question, however often and by
// however many clients it is put here.
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

// get is get_request. What is not known here is nobody's to know: of other tasks nothing is
// looked up.
func (s *Service) get(ctx context.Context, a getArguments) (outcome, error) {
	f := s.desk.find(a.RequestID)
	if f == nil {
		return outcome{}, broker.E(broker.NotFound, "This server knows no such request. Ask with request_credential again: the same question finds the same request, and nobody is asked twice.", nil)
	}
	return f.await(ctx, a.Wait)
}

// await is what came of a question of which people were told, within so many seconds.
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
