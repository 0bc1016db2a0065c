package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"ebb/attest/fetch"
)

// maxAnswer is above the largest object that etcd takes (1.5 MiB).
const maxAnswer = 2 << 20

// api asks one API server.
type api struct {
	place     *fetch.Place
	tokenFile string
}

func newAPI(c Config) (*api, error) {
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	// Whoever names the API server means it, wherever it is.
	c.Fetch.RootCAs, c.Fetch.Private, c.Fetch.MaxBytes = roots, true, maxAnswer
	place, err := fetch.NewPlace(c.Server, c.Fetch)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return &api{place: place, tokenFile: c.TokenFile}, nil
}

var errForm = errors.New("the answer is not of the form that an API server gives it")

// statusError is an answer that is no success.
type statusError struct {
	Code int
	// What the API server says of it; zero when the answer is no Status of that code,
	// and so may be of something in between.
	Reason, Kind, Name, Message string
}

// Error implements error.
func (e *statusError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("HTTP %d, not in the API's form", e.Code)
	}
	return fmt.Sprintf("HTTP %d %s: %q", e.Code, e.Reason, e.Message)
}

var reasonForm = regexp.MustCompile(`^[A-Za-z]{1,64}$`)

// login puts ebb's own into a request.
func (a *api) login(q *fetch.Request) (login string, err error) {
	if login, err = readLogin(a.tokenFile); err != nil {
		return "", err
	}
	q.Header = http.Header{"User-Agent": {"ebb"}, "Accept": {"application/json"}, "Authorization": {"Bearer " + login}}
	return login, nil
}

// call sends a request, with in as its body unless that is nil, and decodes the
// answer into out. secrets do not get into errors.
func (a *api) call(ctx context.Context, q fetch.Request, in, out any, secrets ...string) error {
	login, err := a.login(&q)
	if err != nil {
		return err
	}
	if in != nil {
		if q.Body, err = json.Marshal(in); err != nil {
			return err
		}
		q.Header.Set("Content-Type", "application/json")
	}
	answer, err := a.place.Do(ctx, q)
	if err != nil {
		return err
	}
	if answer.Status != http.StatusOK && answer.Status != http.StatusCreated {
		return readStatus(answer.Status, answer.Body, append(secrets, login)...)
	}
	if json.Unmarshal(answer.Body, out) != nil { // its error can hold parts of the answer
		return errForm
	}
	return nil
}

const maxMessage = 300

// readStatus reads an answer that is no success (meta/v1, Status).
func readStatus(code int, body []byte, secrets ...string) error {
	e := &statusError{Code: code}
	var s struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Status     string `json:"status"`
		Code       int    `json:"code"`
		Reason     string `json:"reason"`
		Message    string `json:"message"`
		Details    struct {
			Name string `json:"name"`
			Kind string `json:"kind"`
		} `json:"details"`
	}
	if json.Unmarshal(body, &s) != nil || s.APIVersion != "v1" || s.Kind != "Status" || s.Status != "Failure" || s.Code != code || !reasonForm.MatchString(s.Reason) {
		return e
	}
	for _, secret := range secrets {
		s.Message = strings.ReplaceAll(s.Message, secret, "[redacted]")
	}
	e.Reason, e.Kind, e.Name, e.Message = s.Reason, s.Details.Kind, s.Details.Name, s.Message[:min(len(s.Message), maxMessage)]
	return e
}
