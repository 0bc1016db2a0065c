package broker

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"ebb/attest"
)

// Some platforms give a sandbox no document to hold: their egress writes it into an
// HTTP header of what the sandbox sends. The attestor of such a platform takes its
// evidence from that header of an enrolment and from nowhere else, and every other
// attestor takes none from any header, so that there is never a choice between two.

var headerForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

// Headers that mean something else already, to ebb, to HTTP or to what stands in
// between: a document in one of them would be read, changed or logged by others.
var (
	otherHeaders = []string{"accept", "authorization", "baggage", "client-cert", "client-cert-chain", "connection", "cookie", "cookie2", "date", "dpop",
		"expect", "forwarded", "from", "host", "http2-settings", "idempotency-key", "keep-alive", "location", "max-forwards", "origin", "pragma", "prefer", "range",
		"referer", "server", "set-cookie", "signature", "signature-input", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade", "user-agent",
		"via", "warning", "www-authenticate", "x-correlation-id", "x-real-ip", "x-request-id"}
	otherFamilies = []string{"accept-", "access-control-", "cache-", "content-", "if-", "proxy-", "sec-", "x-forwarded-"}
)

// CheckEvidenceHeader says what is wrong with the name of a header that evidence is
// to come in.
func CheckEvidenceHeader(name string) error {
	lower := strings.ToLower(name)
	switch {
	case !headerForm.MatchString(name):
		return fmt.Errorf("%q is not a header's name: a letter, then up to 63 letters, digits and -", name)
	case slices.Contains(otherHeaders, lower), slices.ContainsFunc(otherFamilies, func(p string) bool { return strings.HasPrefix(lower, p) }):
		return fmt.Errorf("the header %q means something else; have the platform set one of its own, such as X-Workload-Token", name)
	}
	return nil
}

// EvidenceHeader is the header that evidence for an enrolment comes in, "" for the
// body, and the attestor that it is of: attestor, or "" and then the task's.
func (b *Broker) EvidenceHeader(ctx context.Context, attestor, taskID string) (of, header string, err error) {
	if len(b.cfg.EvidenceHeaders) == 0 {
		return attestor, "", nil
	}
	if attestor == "" {
		t, err := b.taskByID(ctx, taskID)
		if err != nil && AsError(err).Kind == Unavailable {
			return "", "", err
		}
		if err != nil {
			return "", "", nil // the pipeline says so
		}
		attestor = t.Expect.Attestor
	}
	return attestor, b.cfg.EvidenceHeaders[attestor], nil
}

// comesRight refuses evidence that came another way than its attestor's platform
// sends it: what belongs into a header that the sandbox never sees was found
// somewhere when it is in a body.
func (b *Broker) comesRight(ev attest.Evidence) error {
	switch want := b.cfg.EvidenceHeaders[ev.Attestor]; {
	case ev.Header == want:
		return nil
	case want == "":
		return attest.Reject(attest.ReasonType, "the attestor of the task takes no evidence from a header", nil)
	}
	return attest.Reject(attest.ReasonType, "the attestor takes its evidence from an HTTP header of POST /v1/enroll alone; enrol, then use the task token", nil)
}
