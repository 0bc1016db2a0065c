package broker

import (
	"context"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"ebb/broker/audit"
)

// Exchange is what the record says of one request, session or SSH connection through egress:
// nothing of its query, its headers, its body, and what is said in it.
//
// Its members are in the order of their names: so it is in canonical form as it is written (RFC
// 8785 section 3.2.3), and is not parsed again for the record, which has two of each request.
type Exchange struct {
	Cut      bool   `json:"cut,omitempty"`      // it did not end by itself
	Database string `json:"database,omitempty"` // of a session
	Host     string `json:"host,omitempty"`     // host:port
	Method   string `json:"method,omitempty"`
	Millis   int64  `json:"ms,omitempty"`
	Path     string `json:"path,omitempty"`     // escaped, at most MaxExchangePath bytes
	Protocol string `json:"protocol,omitempty"` // of a session or of SSH; "" = it is a request of HTTP
	Reason   string `json:"reason,omitempty"`
	Received int64  `json:"received_bytes,omitempty"`
	Redacted int64  `json:"redacted,omitempty"` // secrets that came back
	Sent     int64  `json:"sent_bytes,omitempty"`
	Status   int    `json:"status,omitempty"` // of the upstream; 0 = it gave no answer
	Tool     string `json:"tool,omitempty"`
	// Transcript is the id of what is written down of it; WithoutTranscript = a rule asks for one, and
	// there was no room; "" = none does.
	Transcript string `json:"transcript,omitempty"`
	Untrusted  bool   `json:"-"` // others write what this host answers
}

// WithoutTranscript stands in the place of an id where a rule lets a request leave without one.
const WithoutTranscript = "none"

// maxTaintHost is what of a host fits into the name of a source.
const maxTaintHost = 63 - len("egress/")

// MaxExchangePath bounds the path of an Exchange.
const MaxExchangePath = 256

// UseAllowed records that a credential is about to be added to a request. Unless it
// returns nil the request must not be sent (I11). A task that reads what others write
// is tainted by that before it reads it.
func (b *Broker) UseAllowed(ctx context.Context, c Caller, u Usable, x Exchange) error {
	if x.Untrusted {
		host, _, _ := strings.Cut(x.Host, ":")
		host = host[:min(len(host), maxTaintHost)]
		if err := b.taintBy(ctx, u.task, "egress/"+host); err != nil {
			return err
		}
	}
	e := b.taskEntry(audit.EgressAllowed, sandboxOf(c.TaskID), c.TaskID, x)
	e.LeaseID = u.Target.LeaseID
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{e}}); err != nil {
		return unavailable(err)
	}
	return nil
}

// UseCompleted records how a request ended that was allowed, whatever ended it.
func (b *Broker) UseCompleted(ctx context.Context, c Caller, leaseID string, x Exchange) {
	e := b.taskEntry(audit.EgressCompleted, sandboxOf(c.TaskID), c.TaskID, x)
	e.LeaseID = leaseID
	b.noteLate(ctx, e)
}

// UseDenied records that a request did not leave. leaseID is what it named, "" when that
// was nothing that could be one.
func (b *Broker) UseDenied(ctx context.Context, c Caller, leaseID string, x Exchange) {
	leftOut, now := b.refusals.count(c.TaskID)
	if !now {
		b.m.unrecorded.Inc()
		return
	}
	e := b.taskEntry(audit.EgressDenied, sandboxOf(c.TaskID), c.TaskID, struct {
		Exchange
		LeftOut int64 `json:"left_out,omitempty"` // denials since the entry before that are on no record
	}{x, leftOut})
	if validID(leasePrefix, leaseID) {
		e.LeaseID = leaseID
	}
	b.note(ctx, e)
}

// taintBy marks a task, and those above it, by what it is about to read.
func (b *Broker) taintBy(ctx context.Context, t Task, source string) error {
	key := "taint " + t.ID + " " + source
	if _, known := b.noted.Get(key); known {
		return nil
	}
	if err := b.taintTree(ctx, sandboxOf(t.ID), t, []string{source}); err != nil {
		return err
	}
	b.noted.Add(key, b.now())
	return nil
}

// refusals bound how many denials of one task are written down one by one: a box could
// make as many as it likes (I12).
type refusals struct {
	mu sync.Mutex
	of map[string]*refused
}

type refused struct {
	pace    *rate.Limiter
	leftOut int64
}

const (
	refusalsPerSecond = 2
	refusalsAtOnce    = 40
	maxRefusing       = 8192 // tasks; beyond, all of them begin anew
)

// count says whether a denial is written down now, and how many were not since the last.
func (r *refusals) count(taskID string) (leftOut int64, now bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of) >= maxRefusing || r.of == nil {
		r.of = map[string]*refused{}
	}
	t := r.of[taskID]
	if t == nil {
		t = &refused{pace: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce)}
		r.of[taskID] = t
	}
	if !t.pace.Allow() {
		t.leftOut++
		return 0, false
	}
	leftOut, t.leftOut = t.leftOut, 0
	return leftOut, true
}
