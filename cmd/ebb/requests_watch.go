package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

func (c requestCommands) requestsWatch() *cobra.Command {
	var f client.RequestFilter
	cmd := &cobra.Command{
		Use: "watch", Short: "Print waiting requests as they come, and their outcomes, until interrupted", Args: cobra.NoArgs,
		Long: `Print the requests that wait for an approval, then new ones as they come, and the
outcome of each: approved, denied, expired or withdrawn. The command ends when it is
interrupted, with exit code 0. With -o json each line is one request.`,
	}
	requestFlags(cmd, &f)
	every := everyFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(approverKey)
		if err != nil {
			return err
		}
		if err := c.about(cmd.Context(), o, &f.TaskID, nil, nil); err != nil {
			return err
		}
		w := requestWatch{requestCommands: c, list: o.Requests.List, filter: f}
		return c.watch(cmd.Context(), *every, w.poll)
	})
	return c.output(c.remote(cmd))
}

// requestWatch prints requests whose state has changed.
type requestWatch struct {
	requestCommands
	list   func(context.Context, client.RequestFilter) (wire.List[wire.Request], error)
	filter client.RequestFilter
	seen   map[string]wire.RequestState // waiting requests, and changes since the last query; nil before the first
	since  time.Time                    // the newest change, by ebb's clock
}

func (w *requestWatch) poll(ctx context.Context) error {
	first := w.seen == nil
	if first {
		w.since = time.Now()
	}
	changed, err := w.read(ctx, client.RequestFilter{Since: w.since.Add(-lateness)})
	if err != nil {
		return err
	}
	seen := map[string]wire.RequestState{}
	for id, state := range w.seen {
		if state == wire.RequestPending {
			seen[id] = state
		}
	}
	show := changed
	if first { // requests that were decided before are not printed
		for _, r := range changed {
			if r.State != wire.RequestPending {
				seen[r.ID] = outcome(r)
			}
		}
		if show, err = w.read(ctx, client.RequestFilter{State: wire.RequestPending}); err != nil {
			return err
		}
	}
	for _, r := range show {
		if state := outcome(r); !first && w.seen[r.ID] == state {
			seen[r.ID] = state
			continue
		}
		if err := w.print(r); err != nil {
			return err
		}
		seen[r.ID] = outcome(r)
		for _, at := range []time.Time{r.CreatedAt, r.DecidedAt} {
			if at.After(w.since) {
				w.since = at
			}
		}
	}
	w.seen = seen
	return nil
}

// read returns all requests of the filter, oldest first.
func (w *requestWatch) read(ctx context.Context, f client.RequestFilter) ([]wire.Request, error) {
	f.TaskID, f.Owner, f.Group = w.filter.TaskID, w.filter.Owner, w.filter.Group
	items, err := pages(0, func(p client.Page) (wire.List[wire.Request], error) {
		f.Page = p
		return w.list(ctx, f)
	})
	slices.Reverse(items)
	return items, err
}

// outcome is the state of a request without whether an approval has been used.
func outcome(r wire.Request) wire.RequestState {
	if r.State == wire.RequestIssued {
		return wire.RequestApproved
	}
	return r.State
}

func (w *requestWatch) print(r wire.Request) error {
	if w.format == out.JSON {
		return out.Lines(w.stdout, r)
	}
	at, about := r.CreatedAt, agenttext.ShowLine(agentSays(r), 60)
	if r.State != wire.RequestPending {
		at, about = r.DecidedAt, string(r.Code)
	}
	return out.Row(w.stdout, w.format, out.Time(at), string(outcome(r)), r.ID, r.Match, r.Owner, r.Scopes, about)
}
