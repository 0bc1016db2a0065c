package approval

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// PollRequest redeems a deferral code. The caller must hold the key of the first request; if
// the client authenticates, Subject is checked too.
type PollRequest struct {
	Code       string
	Subject    broker.Subject
	Possession broker.Possession
	PublicKey  string // as in TokenRequest: not part of the approval; the approved key authenticates it
}

// Poll redeems a deferral code.
func (ap *Approvals) Poll(ctx context.Context, r PollRequest) (broker.Token, error) {
	t, err := ap.poll(ctx, r)
	outcome := "issued"
	if err != nil {
		outcome = string(broker.AsError(err).Kind)
	}
	ap.m.Tokens.WithLabelValues(outcome).Inc()
	return t, err
}

func (ap *Approvals) poll(ctx context.Context, q PollRequest) (broker.Token, error) {
	s, p := q.Subject, q.Possession
	id, key, genuine := ap.RequestOfCode(q.Code)
	// Another key or another client gets no information and changes nothing: the
	// request stays usable for its owner (CIBA Core section 11).
	if !genuine || key != keyName(p.Binding()) || p.Binding() == (provider.Binding{}) {
		return broker.Token{}, badCode(nil)
	}
	if err := kernel.Certifiable(q.PublicKey); err != nil {
		return broker.Token{}, err
	}
	known := s.Evidence != nil || s.Assertion != "" || s.AccessToken != ""
	if !known {
		if err := ap.admission.ClaimProof(ctx, p); err != nil {
			return broker.Token{}, err
		}
	}
	// Before the request is read, so that fast polling does not load the approval store.
	now := ap.clock.Now()
	interval, ok, err := ap.liveStore.Pace(ctx, "poll:"+id, now, ap.pacing(), now.Add(ap.limits.RequestTTL+time.Hour))
	if err != nil {
		return broker.Token{}, broker.StoreError(err)
	}
	if !ok {
		return broker.Token{}, &broker.Error{Kind: broker.SlowDown, Public: "Polled too fast. Wait for interval seconds before each poll from now on.", RetryAfter: interval,
			Pending: &broker.PendingInfo{RequestID: id, Interval: interval}}
	}
	r, err := ap.requestByID(ctx, id)
	if err != nil {
		if broker.AsError(err).Kind == broker.Unavailable {
			return broker.Token{}, err
		}
		return broker.Token{}, badCode(err)
	}
	if p.Binding() != r.Binding {
		return broker.Token{}, badCode(nil)
	}
	if known {
		if s.Evidence != nil {
			s.TaskID = r.TaskID // evidence does not name the task, and a poll has no such parameter
		}
		a, err := ap.callers.Ask(ctx, kernel.ToMint, s, p)
		if err != nil {
			return broker.Token{}, err
		}
		if a.Sandbox.ID != r.Sandbox {
			return broker.Token{}, badCode(nil)
		}
	}
	return ap.settle(ctx, r, interval, q.PublicKey)
}

// pacing returns how fast a request may be polled. Each early poll adds 5 seconds to the
// interval (RFC 8628 section 3.5), up to one minute.
func (ap *Approvals) pacing() broker.Pacing {
	interval := ap.limits.PollInterval
	return broker.Pacing{Interval: interval, Step: 5 * time.Second, Most: max(interval, time.Minute)}
}

func badCode(cause error) *broker.Error {
	return broker.E(broker.InvalidGrant, "The code is unknown, was used, or belongs to another client or key.", cause)
}

// settle answers a poll according to the state of its request.
func (ap *Approvals) settle(ctx context.Context, r broker.Request, interval time.Duration, publicKey string) (broker.Token, error) {
	now := ap.clock.Now()
	if r.State == broker.RequestPending && !ap.clock.Sure().Before(r.ExpiresAt) {
		var err error
		if r, err = ap.Expire(ctx, r); err != nil {
			return broker.Token{}, err
		}
	}
	switch r.State {
	case broker.RequestPending:
		return broker.Token{}, ap.pending(r, interval)
	case broker.RequestApproved:
		return ap.redeem(ctx, r, publicKey)
	case broker.RequestDenied, broker.RequestExpired:
		if err := ap.admission.Claim1(ctx, []broker.Claim{{Key: "end:" + r.ID, Value: "1", Until: r.ExpiresAt.Add(time.Hour)}}, broker.InvalidGrant, "The code was answered before."); err != nil {
			return broker.Token{}, err
		}
		if r.State == broker.RequestExpired {
			return broker.Token{}, &broker.Error{Kind: broker.ExpiredRequest, Public: "No person decided in time, which counts as a denial. Ask for less or ask the owner.",
				Advice: &broker.Advice{Decision: "denied", Code: broker.NoAnswer, RetryAfter: int64(ap.limits.CoolDown / time.Second)}}
		}
		left := max(r.DecidedAt.Add(ap.limits.CoolDown).Sub(now), 0)
		var f broker.FactSheet
		_ = json.Unmarshal(r.Facts, &f) // advice is best effort; the denial stands
		return broker.Token{}, &broker.Error{Kind: broker.Denied, Public: "A person denied this.", RetryAfter: left, Advice: ap.advice(r, f.WouldAllow, left)}
	default:
		return broker.Token{}, badCode(nil)
	}
}

// redeem mints the first token of an approved request. Policy, task and evidence are checked
// again: an approval permits the mint, it does not force it.
func (ap *Approvals) redeem(ctx context.Context, r broker.Request, publicKey string) (broker.Token, error) {
	live, err := ap.admission.Admit(ctx, kernel.ToMint, r.TaskID, broker.Possession{}, broker.InvalidGrant)
	if err != nil {
		return broker.Token{}, err
	}
	if live.State == broker.TaskPaused {
		return broker.Token{}, kernel.PausedError()
	}
	if live.Sandbox == nil || live.Sandbox.ID != r.Sandbox {
		return broker.Token{}, badCode(nil)
	}
	p, known := ap.providers[r.Provider]
	if !known {
		return broker.Token{}, broker.E(broker.InvalidTarget, "The provider of this request is no longer configured.", nil)
	}
	w := kernel.MintRequest{
		Caller: kernel.Caller{Live: live, Sandbox: *live.Sandbox, NotAfter: r.EvidenceEnd, Lineage: r.Parents, Bind: r.Binding},
		Scopes: r.Scopes, Name: r.Provider, Provider: p, TTL: r.TTL.Duration(), Tool: r.Tool, Details: r.Details,
		PublicKey: publicKey, Delivery: delivered(r), Content: limitedTo(r),
	}
	d, err := ap.issuer.Judge(&w)
	if err != nil {
		return broker.Token{}, broker.StoreError(err)
	}
	if err := ap.issuer.Deliverable(w, d.MaxAmount); err != nil && d.Effect != policy.Deny {
		return broker.Token{}, ap.issuer.DenyJudged(ctx, w, d, err)
	}
	if d.Effect == policy.Deny {
		return broker.Token{}, ap.issuer.DenyJudged(ctx, w, d, broker.E(broker.Denied, "The policy has changed and no longer allows this.", nil))
	}
	agreed, err := ap.agreed(ctx, r, w, d)
	if err != nil {
		return broker.Token{}, err
	}
	if !agreed {
		// The policy now demands other approvers: the code can no longer be redeemed, and the
		// agent may ask again.
		if _, err := ap.revoker.Withdraw(ctx, r, kernel.Self, "others_must_agree"); err != nil {
			return broker.Token{}, err
		}
		return broker.Token{}, ap.issuer.DenyJudged(ctx, w, d, broker.E(broker.Denied, "The policy now demands other approvers than those who approved. Ask again.", nil))
	}
	dec := ap.underGrant(r, w, d)
	dec.First = &r
	return ap.issuer.Mint(ctx, w, dec)
}

func (ap *Approvals) Expire(ctx context.Context, r broker.Request) (broker.Request, error) {
	e := ap.revoker.RequestEntry(audit.RequestExpired, kernel.Self, r, nil)
	out, err := ap.approvalStore.Settle(ctx, r.ID, broker.RequestPending, broker.RequestExpired, ap.clock.Now(), broker.Record{Entries: []audit.Entry{e}})
	if errors.Is(err, broker.ErrDone) { // decided in the same moment
		return ap.requestByID(ctx, r.ID)
	}
	if err != nil {
		return r, broker.StoreError(err)
	}
	ap.m.Requests.WithLabelValues("expired").Inc()
	return out, nil
}

func (ap *Approvals) requestByID(ctx context.Context, id string) (broker.Request, error) {
	if !broker.ValidID(broker.RequestPrefix, id) {
		return broker.Request{}, kernel.NotFoundRequest(id)
	}
	rs, err := ap.approvalStore.Requests(ctx, broker.RequestFilter{IDs: []string{id}})
	if err != nil {
		return broker.Request{}, broker.StoreError(err)
	}
	if len(rs) == 0 {
		return broker.Request{}, kernel.NotFoundRequest(id)
	}
	return rs[0], nil
}

// codePrefix marks deferral codes. A code holds the request's id, a name of its key, and an
// HMAC of both. A code can therefore be recognised, and another key refused, without reading
// the store; and a repeated first request gets the same code.
const codePrefix = "ebb_dfr_"

func (ap *Approvals) codeOf(requestID string, k provider.Binding) secret.Secret {
	return ap.codeFor(requestID, keyName(k))
}

func (ap *Approvals) codeFor(requestID, key string) secret.Secret {
	text := strings.TrimPrefix(requestID, broker.RequestPrefix) + "_" + key
	m := hmac.New(sha256.New, ap.codeKey)
	m.Write([]byte(text))
	return secret.New(codePrefix + text + "_" + hex.EncodeToString(m.Sum(nil)))
}

// keyName returns a name of the same length for every key, without "_".
func keyName(k provider.Binding) string {
	sum := sha256.Sum256([]byte(k.JKT + " " + k.X5T))
	return hex.EncodeToString(sum[:16])
}

// RequestOfCode is the inverse of codeOf; is reports whether code is genuine. key names the key
// with which it can be redeemed.
func (ap *Approvals) RequestOfCode(code string) (id, key string, is bool) {
	rest, ok := strings.CutPrefix(code, codePrefix)
	if !ok {
		return "", "", false
	}
	part := strings.Split(rest, "_")
	id = broker.RequestPrefix + part[0]
	if len(part) != 3 || !broker.ValidID(broker.RequestPrefix, id) {
		return "", "", false
	}
	return id, part[1], ap.codeFor(id, part[1]).Equal(secret.New(code))
}
