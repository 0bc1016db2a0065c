package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Post is the part that all kinds over HTTP share. It reports the status of an answer but
// not its body, which is untrusted text.
type Post struct {
	place *fetch.Place
	where string
}

// NewPost fixes the URL. Errors do not repeat it: the path of a webhook is often the
// secret that permits its use.
func NewPost(text string, c fetch.Config) (Post, error) {
	const (
		timeout   = 10 * time.Second // for one attempt, including the answer
		maxAnswer = 16 << 10         // the rest is read and discarded, so that the connection can be reused
	)
	c.Timeout, c.MaxBytes = timeout, maxAnswer
	place, err := fetch.NewPlace(text, c)
	u, err2 := url.Parse(text)
	if err != nil || err2 != nil {
		return Post{}, errors.New("it must be an https URL (http on loopback) without user information and fragment")
	}
	return Post{place, u.Scheme + "://" + u.Host}, nil
}

// Where returns the part of the URL that may be shown.
func (p Post) Where() string { return p.where }

// busyTime is the wait after a rate-limiting answer without a duration.
const busyTime = time.Minute

// Do sends a JSON body once.
func (p Post) Do(ctx context.Context, header http.Header, body []byte) (string, error) {
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", "ebb")
	a, err := p.place.Do(ctx, fetch.Request{Method: http.MethodPost, Body: body, Header: header})
	if errors.Is(err, fetch.ErrRedirect) {
		return "", errors.New("the receiver redirects: configure its new URL")
	}
	if err != nil && !errors.Is(err, fetch.ErrTooLarge) { // a long answer is an answer, of unknown status
		return "", fmt.Errorf("the receiver does not answer: %w", cause(err))
	}
	if err != nil {
		return "", errors.New("the receiver's answer is too long")
	}
	said := fmt.Sprintf("HTTP %d %s", a.Status, http.StatusText(a.Status))
	switch {
	case a.Status >= 200 && a.Status < 300:
		return said, nil
	case a.Status == http.StatusGone:
		return said, fmt.Errorf("%w: %s", ErrGone, said)
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
		after, told := provider.RetryAfter(a.Header, time.Now())
		if !told {
			after = busyTime
		}
		return said, &BusyError{After: after, Cause: errors.New(said)}
	}
	return said, fmt.Errorf("the receiver answered %s", said)
}

// cause removes the URL, which comes first, from an error of a place.
func cause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}
