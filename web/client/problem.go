package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"ebb/broker"
	"ebb/broker/provider"
)

// Problem is an error answer of ebb: a problem document of /v1 (RFC 9457) or an
// error of /oauth2 (RFC 6749 section 5.2).
type Problem struct {
	Status     int             // HTTP status
	Kind       broker.Kind     // why; "" when the answer was not one of ebb's
	Title      string          // the same for every occurrence; "" at /oauth2
	Detail     string          // one sentence that says what to do next
	Instance   string          // id of the request in ebb's log
	RetryAfter time.Duration   // 0 when waiting does not help
	Advice     *broker.Advice  // for a denied agent, or nil
	Pending    *Pending        // with kind Pending, or nil
	Reached    *broker.Reached // how far an end has got that is not recorded everywhere yet, or nil
	Missing    []string        // with kind StepUpRequired: the proofs that the approval lacks
	Page       string          // with kind StepUpRequired: of the console, where the person approves; "" on loopback
}

// Pending is a request that waits for a person.
type Pending struct {
	Code      provider.Secret // deferral code: redeem it with Sandbox.Poll
	RequestID string          // for people: what the request is called; "" = not said
	Page      string          // of the console, where they decide; "" = not said, as on loopback
	ExpiresIn time.Duration   // no answer by then is a no; 0 = not said
	Interval  time.Duration   // between polls; 0 = not said
}

// Error implements error.
func (p *Problem) Error() string {
	what := string(p.Kind)
	if what == "" {
		what = "HTTP " + strconv.Itoa(p.Status)
	}
	if p.Detail == "" {
		return "ebb answered " + what
	}
	return "ebb answered " + what + ": " + p.Detail
}

// IsKind reports whether err is a Problem of that kind.
func IsKind(err error, k broker.Kind) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Kind == k
}

// answerError is the JSON of both error shapes; members that an answer lacks stay zero.
type answerError struct {
	Type     string          `json:"type"`
	Title    string          `json:"title"`
	Detail   string          `json:"detail"`
	Instance string          `json:"instance"`
	Advice   *broker.Advice  `json:"advice"`
	Reached  *broker.Reached `json:"reached"`
	Missing  []string        `json:"missing"`

	Error        string `json:"error"`
	Description  string `json:"error_description"`
	DeferralCode string `json:"deferral_code"`
	RequestID    string `json:"request_id"`
	ExpiresIn    int64  `json:"expires_in"`
	Interval     int64  `json:"interval"`
}

const maxProblem = 64 << 10

// readProblem makes a Problem of any answer that is not a success.
func readProblem(resp *http.Response, now time.Time) *Problem {
	p := &Problem{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), now)}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		p.Detail = "a redirect, which is never followed; check the address of ebb"
		return p
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem+1))
	var a answerError
	if err != nil || len(body) > maxProblem || kind != "application/problem+json" && kind != "application/json" ||
		json.Unmarshal(body, &a) != nil || a.Type == "" && a.Error == "" {
		p.Detail = "the answer is not one of ebb's; check the address of ebb"
		if resp.StatusCode == http.StatusServiceUnavailable {
			p.Kind, p.Detail = broker.Unavailable, "ebb cannot be reached behind its proxy; try again later"
		}
		return p
	}
	p.Title, p.Instance, p.Advice, p.Reached, p.Missing = a.Title, a.Instance, a.Advice, a.Reached, a.Missing
	if a.Error == "" {
		p.Kind, p.Detail = broker.Kind(path.Base(a.Type)), a.Detail
		return p
	}
	p.Kind, p.Detail = kindOf(a.Error, resp.StatusCode), a.Description
	if a.DeferralCode != "" {
		if !word(a.RequestID) {
			a.RequestID = "" // it ends in addresses, and is of no use otherwise
		}
		p.Pending = &Pending{Code: provider.NewSecret(a.DeferralCode), RequestID: a.RequestID, ExpiresIn: seconds(a.ExpiresIn), Interval: seconds(a.Interval)}
	} else if a.Interval > 0 {
		p.Pending = &Pending{Interval: seconds(a.Interval)}
	}
	return p
}

// kindOf undoes the naming of /oauth2, where the registry's code differs from
// the kind's name.
func kindOf(code string, status int) broker.Kind {
	switch {
	case status == http.StatusTooManyRequests && code != string(broker.SlowDown):
		return broker.TooMany
	case code == "interaction_required":
		return broker.AskRequired
	case code == "unauthorized_client":
		return broker.Forbidden
	case code == "server_error":
		return broker.Internal
	}
	return broker.Kind(code)
}

// seconds bounds a number from the wire, so that it cannot overflow.
func seconds(n int64) time.Duration {
	const most = 7 * 24 * 3600
	return time.Duration(max(0, min(n, most))) * time.Second
}

// retryAfter reads both forms of RFC 9110 section 10.2.3.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
		return seconds(n)
	}
	if at, err := http.ParseTime(v); err == nil {
		return seconds(int64(at.Sub(now).Seconds()) + 1)
	}
	return 0
}

func badAnswer(what string, err error) error {
	if err == nil {
		return fmt.Errorf("client: the answer of ebb %s", what)
	}
	return fmt.Errorf("client: the answer of ebb %s: %w", what, err)
}

// word reports one word of visible ASCII, as tokens (RFC 6750 section 2.1) and
// ebb's names are: it ends in header lines, in files and on terminals.
func word(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return s != ""
}
