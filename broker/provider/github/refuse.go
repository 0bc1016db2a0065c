package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/broker/provider"
)

// waitUnsaid is GitHub's advice for a rate limit without an end.
const waitUnsaid = time.Minute

// message returns the message of an error response for the log: at most 200 bytes of ASCII.
// It is never sent to a caller.
func (a answer) message() string {
	var e struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(a.body, &e) != nil || e.Message == "" {
		return "(no message)"
	}
	text := []byte(e.Message[:min(len(e.Message), 200)])
	for i, c := range text {
		if c < 0x20 || c > 0x7e {
			text[i] = '?'
		}
	}
	return string(text)
}

// fromGitHub reports whether an error response has GitHub's form, and so does not come from
// a proxy.
func (a answer) fromGitHub() bool { return a.message() != "(no message)" }

// unknown reports whether GitHub itself does not accept a token, because it has expired, was
// revoked or never existed. Gateways answer 401 too, with messages of their own.
func (a answer) unknown() bool {
	return a.status == http.StatusUnauthorized && strings.HasPrefix(strings.ToLower(a.message()), "bad credentials")
}

func (a answer) error() error { return fmt.Errorf("github: %d: %s", a.status, a.message()) }

// busy returns a *BusyError for GitHub's primary and secondary rate limits, nil for other
// responses.
func (a answer) busy() error {
	if a.status != http.StatusForbidden && a.status != http.StatusTooManyRequests {
		return nil
	}
	if after, ok := provider.RetryAfter(a.header, a.theirs()); ok {
		return &provider.BusyError{After: after, Cause: a.error()}
	}
	if a.header.Get("X-RateLimit-Remaining") == "0" {
		after := waitUnsaid
		if reset, err := strconv.ParseInt(a.header.Get("X-RateLimit-Reset"), 10, 64); err == nil {
			after = min(max(time.Unix(reset, 0).Sub(a.theirs()), time.Second), time.Hour)
		}
		return &provider.BusyError{After: after, Cause: a.error()}
	}
	if a.status == http.StatusTooManyRequests || strings.Contains(strings.ToLower(a.message()), "rate limit") {
		return &provider.BusyError{After: waitUnsaid, Cause: a.error()}
	}
	return nil
}

// refusal converts a response without a token to an error of Mint.
func (d *Driver) refusal(ctx context.Context, a ask, ans answer) error {
	if busy := ans.busy(); busy != nil {
		return busy
	}
	if ans.status >= 400 && ans.status < 500 && !ans.fromGitHub() {
		return fmt.Errorf("github: the response with status %d does not have GitHub's form: check the proxies between ebb and GitHub", ans.status)
	}
	switch ans.status {
	case http.StatusUnauthorized:
		return provider.Refused("GitHub does not accept the App's key. The operator of ebb must check it.",
			fmt.Errorf("%w; the key may be revoked, the client_id wrong, or the clock off by %s", ans.error(), ans.skew().Round(time.Second)))
	case http.StatusForbidden:
		if in, err := d.installation(ctx, d.cfg.Installations[a.owner]); err == nil && in.suspended() {
			return provider.Refused(fmt.Sprintf("The installation of the GitHub App at %s is suspended. An owner of it must unsuspend it.", a.owner), ans.error())
		}
		return provider.Refused(fmt.Sprintf("GitHub forbids the App to act at %s. The operator of ebb must check its installation.", a.owner), ans.error())
	case http.StatusNotFound:
		return provider.Refused(fmt.Sprintf("The GitHub App is not installed at %s any more. The operator of ebb must check its installation.", a.owner), ans.error())
	case http.StatusUnprocessableEntity:
		return d.unprocessable(ctx, a, ans)
	}
	if ans.status >= 400 && ans.status < 500 {
		return provider.Refused(fmt.Sprintf("GitHub refuses the request for %s. The operator of ebb must look into its log.", wordsOf(a)), ans.error())
	}
	return ans.error()
}

// wordsOf returns the first three requested permissions in the caller's words.
func wordsOf(a ask) string {
	if n := len(a.words); n > 3 {
		return fmt.Sprintf("one of %s and %d more", strings.Join(a.words[:3], ", "), n-3)
	} else if n > 1 {
		return "one of " + strings.Join(a.words, ", ")
	}
	return a.words[0]
}

// unprocessable names the permission or repository that the installation lacks. Both are
// from the caller's request, so the message discloses nothing.
func (d *Driver) unprocessable(ctx context.Context, a ask, ans answer) error {
	if in, err := d.installation(ctx, d.cfg.Installations[a.owner]); err == nil {
		if missing := lacking(in.granted(), a.permissions); len(missing) > 0 {
			return provider.Refused(fmt.Sprintf("The GitHub App was not granted %s at %s. Request less, or have an owner of %s grant it.",
				strings.Join(missing, " "), a.owner, a.owner), ans.error())
		}
	}
	return provider.Refused(fmt.Sprintf("The GitHub App cannot reach %s. Spell it as GitHub does, or have an owner add it to the installation.", wordsOf(a)),
		errors.Join(errRepository, ans.error()))
}

// errRepository is wrapped when GitHub did not accept an id or a name.
var errRepository = errors.New("a repository was not accepted")

// skew returns how far ebb's clock is ahead of GitHub's.
func (a answer) skew() time.Duration { return a.at.Sub(a.theirs()) }
