package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// idLength is the length of an id: such as tsk_, and 32 hex digits.
const idLength = 36

const hexDigits = "0123456789abcdef"

// leastDigits is the least number of digits of a prefix in a command that
// changes something. Eight digits of an id are its time to about a minute.
const leastDigits = 8

// candidates is the number of ids that a lookup reads. It is one more than
// an error prints, to detect that there are more.
const candidates = 4

// ids completes a prefix of an id, as tables print it, to the id.
type ids struct {
	*cli
	prefix string // such as tsk_
	noun   string
	list   string // the command that prints ids
	// near reads the ids that sort next to a prefix, at most candidates.
	near func(ctx context.Context, prefix string) ([]string, error)
}

// padded extends a prefix to the length of an id.
func padded(prefix, digit string) string {
	return prefix + strings.Repeat(digit, max(0, idLength-len(prefix)))
}

// after is the page of the ids that sort after a prefix.
func after(prefix string) client.Page {
	return client.Page{After: padded(prefix, "0"), Limit: candidates}
}

func (c *cli) taskIDs(o *client.Operator) ids {
	return ids{c, broker.TaskPrefix, "task", "ebb task list", func(ctx context.Context, prefix string) ([]string, error) {
		l, err := o.Tasks.List(ctx, client.TaskFilter{Page: after(prefix)})
		return idsOf(l.Items, func(t wire.Task) string { return t.ID }), err
	}}
}

func (c *cli) leaseIDs(o *client.Operator) ids {
	return ids{c, broker.LeasePrefix, "credential", "ebb leases list", func(ctx context.Context, prefix string) ([]string, error) {
		l, err := o.Credentials.List(ctx, client.CredentialFilter{Page: after(prefix)})
		return idsOf(l.Items, func(l wire.Lease) string { return l.ID }), err
	}}
}

func (c *cli) requestIDs(o *client.Operator) ids {
	return ids{c, broker.RequestPrefix, "request", "ebb requests list --all", func(ctx context.Context, prefix string) ([]string, error) {
		l, err := o.Requests.List(ctx, client.RequestFilter{Page: after(prefix)})
		return idsOf(l.Items, func(r wire.Request) string { return r.ID }), err
	}}
}

// transcriptIDs reads transcripts newest first, as their listing is.
func (c *cli) transcriptIDs(o *client.Operator) ids {
	return ids{c, "trn_", "transcript", "ebb transcripts list", func(ctx context.Context, prefix string) ([]string, error) {
		l, err := o.Transcripts.List(ctx, client.TranscriptFilter{After: padded(prefix, "f"), Limit: candidates})
		return idsOf(l.Items, func(h wire.TranscriptHead) string { return h.ID }), err
	}}
}

func idsOf[T any](items []T, id func(T) string) []string {
	all := make([]string, len(items))
	for i, x := range items {
		all[i] = id(x)
	}
	return all
}

// read completes a prefix for a command that changes nothing.
func (i ids) read(ctx context.Context, arg string) (string, error) {
	return i.complete(ctx, arg, 1)
}

// change completes a prefix for a command that changes something. It prints the
// whole id.
func (i ids) change(ctx context.Context, arg string) (string, error) {
	id, err := i.complete(ctx, arg, leastDigits)
	if err == nil && id != arg {
		i.sayf("ebb: %s is %s\n", out.Line(arg), id)
	}
	return id, err
}

// complete returns the only id that begins with arg. If arg does not have the
// form of a prefix, complete returns arg, and the server decides. Ids of one kind
// sort by their text in listings, so the first ids after the prefix suffice.
func (i ids) complete(ctx context.Context, arg string, least int) (string, error) {
	digits, is := strings.CutPrefix(arg, i.prefix)
	if !is || len(arg) >= idLength || strings.Trim(digits, hexDigits) != "" {
		return arg, nil
	}
	if len(digits) < least {
		return "", usage(fmt.Sprintf("%s is too short for an id: at least %d hex digits after %s are needed", arg, least, i.prefix), "copy the id from `"+i.list+"`")
	}
	all, err := i.near(ctx, arg)
	if err != nil {
		return "", err
	}
	var found []string
	for _, id := range all {
		if rest, begins := strings.CutPrefix(id, arg); begins && len(id) == idLength && strings.Trim(rest, hexDigits) == "" {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", fail(fmt.Sprintf("no %s that you may see has an id that begins with %s", i.noun, arg), "copy the id from `"+i.list+"`")
	case 1:
		return found[0], nil
	}
	more := ""
	if len(found) == candidates {
		found, more = found[:candidates-1], " and more"
	}
	return "", usage(fmt.Sprintf("%s begins several ids: %s%s", arg, strings.Join(found, ", "), more), "write more digits of the id")
}

// named is an action whose argument may be a prefix of an id.
func named[T any](find func(context.Context, string) (string, error), do action[T]) action[T] {
	return func(ctx context.Context, arg string) (none T, err error) {
		id, err := find(ctx, arg)
		if err != nil {
			return none, err
		}
		return do(ctx, id)
	}
}

// namedFor is named for an action with a reason.
func namedFor[T any](find func(context.Context, string) (string, error), do actionFor[T]) actionFor[T] {
	return func(ctx context.Context, arg, reason string) (T, error) {
		return named(find, func(ctx context.Context, id string) (T, error) { return do(ctx, id, reason) })(ctx, arg)
	}
}

// about completes the ids of a filter in place. Empty ones stay empty.
func (c *cli) about(ctx context.Context, o *client.Operator, task, lease, request *string) error {
	for _, x := range []struct {
		value *string
		ids   ids
	}{{task, c.taskIDs(o)}, {lease, c.leaseIDs(o)}, {request, c.requestIDs(o)}} {
		if x.value == nil || *x.value == "" {
			continue
		}
		id, err := x.ids.read(ctx, *x.value)
		if err != nil {
			return err
		}
		*x.value = id
	}
	return nil
}

// listOf prints a listing. An empty one of a task that does not exist is an
// error.
func listOf[T any](ctx context.Context, c *cli, o *client.Operator, task string, columns []out.Column[T], items []T) error {
	if task != "" && len(items) == 0 {
		if _, err := o.Tasks.Get(ctx, task); err != nil {
			return err
		}
	}
	return out.List(c.stdout, c.format, columns, items)
}
