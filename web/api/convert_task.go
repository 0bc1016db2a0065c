package api

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/receipt"
	"github.com/ebb-broker/ebb/web/wire"
)

func wireTask(t broker.Task) wire.Task {
	return wire.Task{
		ID: t.ID, Name: t.Name, Kind: t.Kind, Owner: t.Owner, Runner: t.Runner, Labels: t.Labels, Ceiling: t.Ceiling.String(),
		Caps: wire.Caps(t.Caps), Expect: wire.Expect(t.Expect), Heartbeat: seconds(t.Heartbeat), OpenedAt: t.OpenedAt, Deadline: t.Deadline,
		Delegation: ref(t.Delegation, wireDelegation), Ancestors: t.Ancestors,
		State: wire.TaskState(t.State), Cause: wire.Cause(t.Cause), Reason: t.Reason, PausedBy: t.PausedBy, PausedAs: wire.Role(t.PausedAs),
		ClosedAt: t.ClosedAt, ClosedBy: t.ClosedBy, Sandbox: ref(t.Sandbox, wireSandbox),
	}
}

func wireSandbox(s broker.Sandbox) wire.Sandbox { return wire.Sandbox(s) }

func wireDelegation(d broker.Delegation) wire.Delegation {
	return wire.Delegation{Expect: wire.Expect(d.Expect), Depth: d.Depth, Open: d.Open}
}

func brokerDelegation(d wire.Delegation) broker.Delegation {
	return broker.Delegation{Expect: broker.Expect(d.Expect), Depth: d.Depth, Open: d.Open}
}

func brokerTaskSpec(s wire.TaskSpec) (broker.TaskSpec, error) {
	ceiling, err := scopeAt("/ceiling", s.Ceiling)
	if err != nil {
		return broker.TaskSpec{}, err
	}
	return broker.TaskSpec{
		Name: s.Name, Kind: s.Kind, Owner: s.Owner, Labels: s.Labels, TTL: broker.Seconds(s.TTL), Ceiling: ceiling,
		Caps: broker.Caps(s.Caps), Expect: broker.Expect(s.Expect), Heartbeat: broker.Seconds(s.Heartbeat), Ticket: s.Ticket,
		Delegation: ref(s.Delegation, brokerDelegation),
	}, nil
}

func wireOpenedTask(t broker.Task, ticket *broker.Ticket) wire.OpenedTask {
	out := wire.OpenedTask{Task: wireTask(t)}
	if ticket != nil {
		out.Ticket, out.TicketExpiresAt = ticket.Ticket.Reveal(), ticket.ExpiresAt
	}
	return out
}

func wireTicket(t broker.Ticket) wire.Ticket {
	return wire.Ticket{Ticket: t.Ticket.Reveal(), TicketExpiresAt: t.ExpiresAt}
}

func wireDelegated(t broker.Task, ticket *broker.Ticket) wire.Delegated {
	out := wire.Delegated{TaskID: t.ID, Scope: t.Ceiling.String(), ExpiresAt: t.Deadline, Uses: t.Caps.Uses, Expect: wire.Expect(t.Expect)}
	if ticket != nil {
		out.Ticket, out.TicketExpiresAt = ticket.Ticket.Reveal(), ticket.ExpiresAt
	}
	return out
}

// wireCompletion writes a missing list of credentials as an empty list.
func wireCompletion(c broker.Completion) wire.Completion {
	out := wire.Completion{
		Task: wireTask(c.Task), Already: c.Already, Revoked: c.Revoked, AlreadyExpired: c.AlreadyExpired, Withdrawn: c.Withdrawn,
		Credentials: each(c.Credentials, wireLease), Delegated: c.Delegated, PendingRevocations: c.PendingRevocations, Receipt: c.Receipt,
	}
	if out.Credentials == nil {
		out.Credentials = []wire.Lease{}
	}
	return out
}

func wireReceipt(r receipt.Receipt) wire.Receipt {
	return wire.Receipt{
		Issuer: r.Issuer, IssuedAt: r.IssuedAt, Task: r.Task, ClosedAt: r.ClosedAt, Cause: r.Cause, Delegated: r.Delegated,
		Live: r.Live, Expired: r.Expired, Uncounted: r.Uncounted, Complete: r.Complete, Total: r.Total, States: r.States,
		Credentials: each(r.Credentials, func(c receipt.Credential) wire.ReceiptCredential { return wire.ReceiptCredential(c) }),
		Rest:        ref(r.Rest, func(r receipt.Rest) wire.ReceiptRest { return wire.ReceiptRest(r) }),
	}
}
