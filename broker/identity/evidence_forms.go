package identity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker"
)

// ClientMethods returns the methods of OAuth client authentication that the attestors of
// sandboxes add to private_key_jwt, by name.
func (ej *Evidence) ClientMethods() []attest.ClientMethod {
	var out []attest.ClientMethod
	for name := range ej.attestors {
		out = append(out, ej.clientMethods(name)...)
	}
	slices.SortFunc(out, func(x, y attest.ClientMethod) int { return cmp.Compare(x.Name, y.Name) })
	return slices.Compact(out)
}

func (ej *Evidence) clientMethods(attestor string) []attest.ClientMethod {
	a, takes := ej.attestors[attestor].(attest.ClientAuth)
	if !takes || ej.people[attestor] {
		return nil
	}
	return a.ClientMethods()
}

// takesMethod refuses evidence sent by a client authentication method that its attestor does
// not support: the document must be of the type that the client declares.
func (ej *Evidence) takesMethod(ev attest.Evidence) error {
	if ev.Method == "" || slices.ContainsFunc(ej.clientMethods(ev.Attestor), func(m attest.ClientMethod) bool { return m.Name == ev.Method }) {
		return nil
	}
	return attest.Reject(attest.ReasonType, "the attestor of the task does not take this kind of client authentication", nil)
}

var headerForm = lazyregexp.New(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

// Headers with another meaning for ebb, for HTTP or for proxies: they would read, change or log
// a document in one of them.
var (
	otherHeaders = []string{"accept", "authorization", "baggage", "client-cert", "client-cert-chain", "connection", "cookie", "cookie2", "date", "dpop",
		"expect", "forwarded", "from", "host", "http2-settings", "idempotency-key", "keep-alive", "location", "max-forwards", "origin", "pragma", "prefer", "range",
		"referer", "server", "set-cookie", "signature", "signature-input", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade", "user-agent",
		"via", "warning", "www-authenticate", "x-correlation-id", "x-real-ip", "x-request-id"}
	otherFamilies = []string{"accept-", "access-control-", "cache-", "content-", "if-", "proxy-", "sec-", "x-forwarded-"}
)

// CheckEvidenceHeader returns why a name cannot be the header for evidence.
func CheckEvidenceHeader(name string) error {
	lower := strings.ToLower(name)
	switch {
	case !headerForm.MatchString(name):
		return fmt.Errorf("%q is not a header's name: a letter, then up to 63 letters, digits and -", name)
	case slices.Contains(otherHeaders, lower), slices.ContainsFunc(otherFamilies, func(p string) bool { return strings.HasPrefix(lower, p) }):
		return fmt.Errorf("the header %q has another meaning; configure the platform to set a header of its own, such as X-Workload-Token", name)
	}
	return nil
}

// EvidenceHeader returns the header that carries the evidence of an enrolment, "" for the body,
// and its attestor: the given one, or the task's if that is "".
func (ej *Evidence) EvidenceHeader(ctx context.Context, attestor, taskID string) (of, header string, err error) {
	if len(ej.evidenceHeaders) == 0 {
		return attestor, "", nil
	}
	if attestor == "" {
		t, err := ej.tasks.TaskByID(ctx, taskID)
		if err != nil && broker.AsError(err).Kind == broker.Unavailable {
			return "", "", err
		}
		if err != nil {
			return "", "", nil // identify reports it
		}
		attestor = t.Expect.Attestor
	}
	return attestor, ej.evidenceHeaders[attestor], nil
}

// comesRight refuses evidence that arrived by another way than its attestor's platform uses.
// Evidence that belongs into a header which the sandbox never sees is stolen when it arrives in
// a body.
func (ej *Evidence) comesRight(ev attest.Evidence) error {
	switch want := ej.evidenceHeaders[ev.Attestor]; {
	case ev.Header == want:
		return nil
	case want == "":
		return attest.Reject(attest.ReasonType, "the attestor of the task takes no evidence from a header", nil)
	}
	return attest.Reject(attest.ReasonType, "the attestor takes its evidence from an HTTP header of POST /v1/enroll alone; enrol, then use the task token", nil)
}

// Challenge returns the challenge that evidence of an attestor must answer. It is bound to the
// key proved here, and enrolling with the answer requires the same key.
func (ej *Evidence) Challenge(ctx context.Context, taskID string, ev attest.Evidence, p broker.Possession) (attest.Challenge, error) {
	if p.Key.JKT == "" {
		return attest.Challenge{}, broker.E(broker.InvalidProof, "Prove the sandbox's key: a challenge needs a DPoP proof.", nil)
	}
	ev.Key = p.Key
	if err := ej.admission.ClaimProof(ctx, p); err != nil {
		return attest.Challenge{}, err
	}
	if ev.Attestor == "" {
		t, err := ej.tasks.TaskByID(ctx, taskID)
		if err != nil {
			if broker.AsError(err).Kind == broker.Unavailable {
				return attest.Challenge{}, err
			}
			return attest.Challenge{}, broker.E(broker.InvalidEvidence, "Name the attestor, or with task_id the task.", err)
		}
		ev.Attestor = t.Expect.Attestor
	}
	c, asks := ej.attestors[ev.Attestor].(attest.Challenger)
	if !asks || ej.people[ev.Attestor] {
		return attest.Challenge{}, broker.E(broker.InvalidEvidence, "This attestor asks no challenge: enrol with its evidence.", nil)
	}
	out, err := c.Challenge(ctx, ev)
	if err != nil {
		return attest.Challenge{}, ej.refuseEvidence(ctx, taskID, ev, broker.InvalidEvidence, err)
	}
	return out, nil
}
