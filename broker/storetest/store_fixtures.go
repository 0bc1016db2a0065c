package storetest

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Epoch is the time of the fixtures.
var Epoch = time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)

// ID returns an id that sorts by the time of its creation, as a UUIDv7 does.
func ID(prefix string) string {
	var tail [8]byte
	_, _ = rand.Read(tail[:])
	return fmt.Sprintf("%s%016x%s", prefix, time.Now().UnixNano(), hex.EncodeToString(tail[:]))
}

// Task returns an open task with every member set.
func Task() broker.Task {
	return broker.Task{
		ID: ID("tsk_"), Name: "fix the \"tide\" \U0001f30a", Kind: "bugfix", Owner: "ann@example.org", Runner: "ci",
		Labels:  map[string]string{"team": "harbour", "x": ""},
		Ceiling: scopes.MustParseSet("orders:eu/**:read orders:eu/1:write"),
		Caps:    broker.Caps{Leases: 5, MintsPerMinute: 60, OpenRequests: 3},
		Expect:  broker.Expect{Attestor: "enroll", Selectors: map[string]string{"repo": "ebb"}}, Heartbeat: 30,
		OpenedAt: Epoch, Deadline: Epoch.Add(time.Hour), State: broker.TaskOpen,
	}
}

// Sandbox returns a sandbox of the task.
func Sandbox(taskID string) broker.Sandbox {
	return broker.Sandbox{
		ID: "sbx_" + taskID[4:], Attestor: "enroll", Subject: "box", Class: "ticket", JKT: "jkt", JWK: `{"kty":"OKP"}`,
		Selectors: map[string]string{"repo": "ebb"}, At: Epoch.Add(time.Second),
	}
}

// Lease returns a live lease of the task that lasts ten minutes.
func Lease(taskID string) broker.Lease {
	return broker.Lease{
		ID: ID("lse_"), TaskID: taskID, Sandbox: "sbx_" + taskID[4:], Owner: "ann@example.org", Provider: "orders",
		Scopes: scopes.MustParseSet("orders:eu/1:read"), Resource: "https://orders.test/", Binding: provider.Binding{JKT: "jkt"},
		Class: provider.ClassInstant, RequestID: "req_1", Rule: "policy0", Tool: "curl", Delivery: "egress", Txn: "txn-1",
		IssuedAt: Epoch.Add(time.Minute), ExpiresAt: Epoch.Add(11 * time.Minute), State: broker.LeaseLive,
	}
}

// Request returns a pending request of the task for one approver.
func Request(taskID string) broker.Request {
	return broker.Request{
		ID: ID("req_"), TaskID: taskID, Sandbox: "sbx_" + taskID[4:], Owner: "ann@example.org", Runner: "ci", Dedupe: ID("d"),
		Provider: "orders", Scopes: scopes.MustParseSet("orders:eu/1:write orders:eu/2:write"), Resource: "https://orders.test/", TTL: 600,
		Binding: provider.Binding{X5T: "x5t"}, Tool: "curl", Details: true, EvidenceEnd: Epoch.Add(time.Hour),
		Approval: policy.Approval{Groups: []string{"approvers", "owners"}, Quorum: 1, Rules: []policy.AskRule{{ID: "ask", Groups: []string{"approvers", "owners"}, Quorum: 1}}},
		Facts:    json.RawMessage(`{"b":1,"a":"é"}`), Digest: "0123abcd",
		Reason: agenttext.From("drop\x00 \xff table;\u202e--"), Asked: 1,
		CreatedAt: Epoch.Add(time.Minute), ExpiresAt: Epoch.Add(6 * time.Minute), State: broker.RequestPending,
	}
}

// Entry returns an entry as a caller drafts it.
func Entry(kind, taskID string) audit.Entry {
	return audit.Entry{At: Epoch, Kind: kind, Actor: "ci", TaskID: taskID, Data: json.RawMessage(`{"n":1}`)}
}
