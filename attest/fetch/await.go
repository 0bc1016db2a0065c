package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Await is for answers that begin at once and go on when there is news, such as a
// watch of Kubernetes: it returns nil with the first byte of the body of a 200, or
// with its end. The body's wait is bounded by ctx alone.
func (p *Place) Await(ctx context.Context, r Request) error {
	req, err := p.request(ctx, r)
	if err != nil {
		return err
	}
	start, status := time.Now(), 0
	resp, err := p.client.Do(req)
	if err == nil {
		defer resp.Body.Close() //nolint:errcheck // read-only body
		status = resp.StatusCode
	}
	if p.cfg.Observe != nil {
		p.cfg.Observe(Event{Place: p.written, Took: time.Since(start), Status: status})
	}
	switch {
	case err != nil:
	case status != http.StatusOK:
		err = fmt.Errorf("status %d", status)
	default:
		if _, err = resp.Body.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("fetch %s: %w", p.written, unwrapURL(err))
	}
	return nil
}
