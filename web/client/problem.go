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

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/wire"
)

// Problem is an error response of ebb: a problem document of /v1 (RFC 9457) or
// an error of /oauth2 (RFC 6749 section 5.2).
type Problem struct {
	Status     int           // HTTP status
	Kind       wire.Kind     // "" when the response was not ebb's
	Title      string        // the same for every occurrence; "" at /oauth2
	Detail     string        // cause, and what to do next
	Instance   string        // id of the request in ebb's log
	RetryAfter time.Duration // 0 when waiting does not help
	Advice     *wire.Advice  // advice after a denial, or nil
	Pending    *Pending      // with kind Pending, or nil
	Reached    *wire.Reached // with kind Unavailable: which stores have recorded a stop or revocation, or nil
	Missing    []string      // with kind StepUpRequired: missing proofs of the approval
	Next       []string      // text for people from the server: what to do next; never run it
	Page       string        // with kind StepUpRequired: URL of the console page where the person can approve; "" on loopback
}

// Pending is a request that waits for an approval.
type Pending struct {
	Code      secret.Secret // deferral code: redeem it with Sandbox.Poll
	RequestID string        // id of the request, for people; "" = unknown
	Page      string        // URL of its console page; "" = unknown, as on loopback
	ExpiresIn time.Duration // time until it is denied without an answer; 0 = unknown
	Interval  time.Duration // between polls; 0 = unknown
	Groups    []string      // groups whose members can approve, as text of the server; nil = unknown
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
func IsKind(err error, k wire.Kind) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Kind == k
}

// answerError decodes both error documents. Missing members stay zero. Members
// that both documents have, such as advice, are those of the problem document.
type answerError struct {
	wire.Problem
	oauth wire.OAuthError
}

// UnmarshalJSON decodes both documents from one text.
func (a *answerError) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &a.Problem); err != nil {
		return err
	}
	return json.Unmarshal(text, &a.oauth)
}

const (
	maxProblem = 64 << 10
	maxSteps   = 5 // of Problem.Next
)

// readProblem returns the Problem of a response that is not a success.
func readProblem(resp *http.Response, now time.Time) *Problem {
	p := &Problem{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), now)}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		p.Detail = "a redirect, which is never followed; check the URL of ebb"
		return p
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem+1))
	var a answerError
	if err != nil || len(body) > maxProblem || kind != "application/problem+json" && kind != "application/json" ||
		json.Unmarshal(body, &a) != nil || a.Type == "" && a.oauth.Error == "" {
		p.Detail = "the response is not from ebb; check the URL of ebb"
		if resp.StatusCode == http.StatusServiceUnavailable {
			p.Kind, p.Detail = wire.KindUnavailable, "the proxy cannot reach ebb; try again later"
		}
		return p
	}
	p.Title, p.Instance, p.Advice, p.Reached, p.Missing = a.Title, a.Instance, a.Advice, a.Reached, a.Missing
	p.Next = a.Next[:min(len(a.Next), maxSteps)]
	if p.Advice != nil && p.Advice.WouldAllow != "" {
		if _, err := scopes.ParseSet(p.Advice.WouldAllow); err != nil {
			p.Advice = nil // programs print it as the next command to run, so it must be a scope
		}
	}
	if a.oauth.Error == "" {
		p.Kind, p.Detail = wire.Kind(path.Base(a.Type)), a.Detail
		return p
	}
	p.Kind, p.Detail = kindOf(a.oauth.Error, resp.StatusCode), a.oauth.Description
	if a.oauth.DeferralCode != "" {
		if !word(a.oauth.RequestID) {
			a.oauth.RequestID = "" // it becomes part of URLs, so an invalid id is dropped
		}
		p.Pending = &Pending{Code: secret.New(a.oauth.DeferralCode), RequestID: a.oauth.RequestID, ExpiresIn: seconds(a.oauth.ExpiresIn), Interval: seconds(a.oauth.Interval), Groups: a.oauth.Groups}
	} else if a.oauth.Interval > 0 {
		p.Pending = &Pending{Interval: seconds(a.oauth.Interval)}
	}
	return p
}

// kindOf maps an error code of /oauth2 to a kind, where the registered code
// differs from the kind's name.
func kindOf(code string, status int) wire.Kind {
	switch {
	case status == http.StatusTooManyRequests && code != string(wire.KindSlowDown):
		return wire.KindTooMany
	case code == "interaction_required":
		return wire.KindAskRequired
	case code == "unauthorized_client":
		return wire.KindForbidden
	case code == "server_error":
		return wire.KindInternal
	}
	return wire.Kind(code)
}

// seconds limits a number from a response to 7 days, so that it cannot
// overflow.
func seconds(n int64) time.Duration {
	const most = 7 * 24 * 3600
	return time.Duration(max(0, min(n, most))) * time.Second
}

// retryAfter parses both forms of Retry-After (RFC 9110 section 10.2.3).
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
		return fmt.Errorf("client: the response of ebb %s", what)
	}
	return fmt.Errorf("client: the response of ebb %s: %w", what, err)
}

// word reports whether s is one word of visible ASCII, as tokens (RFC 6750
// section 2.1) and ebb's ids are. Such values are written to header lines,
// files and terminals.
func word(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return s != ""
}
