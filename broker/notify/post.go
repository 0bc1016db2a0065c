package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"ebb/attest/fetch"
	"ebb/broker/provider"
)

// Post says what every kind over HTTP does with an answer. Of a body nothing is said: it
// is the receiver's text.
type Post struct {
	place *fetch.Place
	where string
}

// NewPost pins a URL. Errors do not repeat it: the path of a webhook often is the secret
// that lets one use it.
func NewPost(text string, c fetch.Config) (Post, error) {
	const (
		timeout   = 10 * time.Second // of one attempt, answer included
		maxAnswer = 16 << 10         // read and thrown away, so that the connection serves again
	)
	c.Timeout, c.MaxBytes = timeout, maxAnswer
	place, err := fetch.NewPlace(text, c)
	u, err2 := url.Parse(text)
	if err != nil || err2 != nil {
		return Post{}, errors.New("it must be an https URL (http on loopback) without user information and fragment")
	}
	return Post{place, u.Scheme + "://" + u.Host}, nil
}

// Where is what of the URL may be shown.
func (p Post) Where() string { return p.where }

// busyTime is waited after an answer that limits the rate and does not say how long.
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
		return "", errors.New("the receiver redirects: configure where it is now")
	}
	if err != nil && !errors.Is(err, fetch.ErrTooLarge) { // a long answer is an answer, of unknown status
		return "", fmt.Errorf("the receiver does not answer: %w", cause(err))
	}
	if err != nil {
		return "", errors.New("the receiver's answer has no end")
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

// cause is an error of a place without the URL that it begins with.
func cause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}
