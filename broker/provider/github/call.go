package github

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// maxAnswer is above any answer: 500 repositories of 8 kB.
const maxAnswer = 4 << 20

// answer is what GitHub answered to one call.
type answer struct {
	status int
	header http.Header
	body   []byte
	at     time.Time // our clock when it came
}

// errNotSent is wrapped by call when no byte of the request can have reached
// GitHub.
var errNotSent = errors.New("nothing was sent")

// call makes one API call. Any complete response is an answer, whatever its status. An error means
// that there was no response, or only a part of one.
func (d *Driver) call(ctx context.Context, method, path string, auth secret.Secret, body any) (answer, error) {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return answer{}, fmt.Errorf("%w: %w", errNotSent, err)
		}
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, method, d.cfg.APIURL+path, bytes.NewReader(payload))
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("User-Agent", "ebb")
	req.Header.Set("X-GitHub-Api-Version", d.cfg.APIVersion)
	req.Header.Set("Authorization", "Bearer "+auth.Reveal())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPost && d.cfg.TokenFormat != "" {
		req.Header.Set("X-GitHub-Stateless-S2S-Token", map[string]string{formatOpaque: "disabled", formatStateless: "enabled"}[d.cfg.TokenFormat])
	}
	res, err := d.http.Do(req)
	if err != nil {
		if !connected.Load() {
			return answer{}, fmt.Errorf("%w: %w", errNotSent, err)
		}
		return answer{}, err
	}
	b, err := provider.ReadBody(res, maxAnswer)
	if err != nil {
		return answer{}, fmt.Errorf("GitHub answered %d, and then: %w", res.StatusCode, err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: b, at: d.cfg.Now()}, nil
}

// asApp makes a call as the App. A key that GitHub does not take is read again,
// once: it may have been rotated. GitHub's own 401 says that nothing was done.
func (d *Driver) asApp(ctx context.Context, method, path string, body any) (answer, error) {
	token, fresh, err := d.app.jwt()
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	ans, err := d.call(ctx, method, path, token, body)
	if err != nil || ans.status != http.StatusUnauthorized || !ans.fromGitHub() || fresh {
		return ans, err
	}
	d.app.forget()
	if token, _, err = d.app.jwt(); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return d.call(ctx, method, path, token, body)
}

// theirs is GitHub's clock when it answered; ours, when it does not say.
func (a answer) theirs() time.Time {
	if t, err := http.ParseTime(a.header.Get("Date")); err == nil {
		return t
	}
	return a.at
}
