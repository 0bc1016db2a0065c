package gcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// maxAnswer bounds an answer: a token of the exchange has up to 12 KiB.
const maxAnswer = 256 << 10

// apiError is an answer that is no success.
type apiError struct {
	Code   int
	Status string // google.rpc.Code or an OAuth error; "" when the answer had neither
}

// Error implements error. The service's own sentences stay out: they repeat what
// was sent.
func (e *apiError) Error() string {
	if e.Status == "" {
		return fmt.Sprintf("HTTP %d", e.Code)
	}
	return fmt.Sprintf("HTTP %d %s", e.Code, e.Status)
}

// status is that of an apiError, or "".
func status(err error) string {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.Status
	}
	return ""
}

// postJSON calls a method of a Google API.
func (d *Driver) postJSON(ctx context.Context, to string, login secret.Secret, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+login.Reveal())
	return d.send(d.client, r, out)
}

// postForm calls a token endpoint (RFC 6749 section 4.5, RFC 8693 section 2.1).
// There is no Authorization header: sts.googleapis.com refuses one.
func (d *Driver) postForm(ctx context.Context, to string, form url.Values, out any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return d.send(d.client, r, out)
}

func (d *Driver) send(client *http.Client, r *http.Request, out any) error {
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "ebb")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	if r.Header.Get("Metadata-Flavor") != "" && answer.Header.Get("Metadata-Flavor") != "Google" {
		_ = answer.Body.Close()
		return errors.New("what answers in the place of the metadata server is none")
	}
	text, err := provider.ReadBody(answer, maxAnswer)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return judge(answer, text, d.now())
	}
	if err := json.Unmarshal(text, out); err != nil {
		return errors.New("the answer is not JSON of the expected form") // err can hold parts of it
	}
	return nil
}

// statusForm is a google.rpc.Code or an error code of OAuth.
var statusForm = regexp.MustCompile(`^([A-Z_]{1,40}|[a-z_]{1,40})$`)

// judge reads an answer that is no success: {"error": {"status": ...}} of Google's
// APIs or {"error": "..."} of RFC 6749 section 5.2.
func judge(answer *http.Response, text []byte, now time.Time) error {
	e := &apiError{Code: answer.StatusCode}
	var doc struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &doc) == nil {
		var api struct {
			Status string `json:"status"`
		}
		var code string
		if json.Unmarshal(doc.Error, &code) != nil && json.Unmarshal(doc.Error, &api) == nil {
			code = api.Status
		}
		if statusForm.MatchString(code) {
			e.Status = code
		}
	}
	if e.Code != http.StatusTooManyRequests {
		return e
	}
	return provider.Busy(answer.Header, now, time.Second, e)
}
