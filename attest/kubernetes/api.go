package kubernetes

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/secret"
)

// maxAnswer is the maximum size of a response, larger than the largest object that etcd
// stores (1.5 MiB).
const maxAnswer = 2 << 20

// api is a client of one API server.
type api struct {
	place     *fetch.Place
	tokenFile string
}

func newAPI(c Config) (*api, error) {
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	// The configured address of the API server may be private.
	c.Fetch.RootCAs, c.Fetch.Private, c.Fetch.MaxBytes = roots, true, maxAnswer
	place, err := fetch.NewPlace(c.Server, c.Fetch)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return &api{place: place, tokenFile: c.TokenFile}, nil
}

var errForm = errors.New("the response does not have the format of the Kubernetes API")

// statusError is a response with a status other than 2xx.
type statusError struct {
	Code int
	// Reason, Kind, Name and Message come from the Status in the response. They are
	// empty when the response is not a Status with this code; it may then come from a
	// proxy.
	Reason, Kind, Name, Message string
}

// Error implements error.
func (e *statusError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("HTTP %d, not in the API's form", e.Code)
	}
	return fmt.Sprintf("HTTP %d %s: %q", e.Code, e.Reason, e.Message)
}

var reasonForm = lazyregexp.New(`^[A-Za-z]{1,64}$`)

// login sets the Authorization header to ebb's own token, and returns the token.
func (a *api) login(q *fetch.Request) (login string, err error) {
	if login, err = readLogin(a.tokenFile); err != nil {
		return "", err
	}
	q.Header = http.Header{"User-Agent": {"ebb"}, "Accept": {"application/json"}, "Authorization": {"Bearer " + login}}
	return login, nil
}

// call sends a request, with in as its JSON body unless in is nil, and decodes the
// response into out. secrets are removed from errors.
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
	if json.Unmarshal(answer.Body, out) != nil { // the decoder's error may contain parts of the response
		return errForm
	}
	return nil
}

const maxMessage = 300

// readStatus parses a response with an error status (meta/v1, Status) into a
// *statusError.
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

// The files of the service account that the kubelet mounts in every pod.
const (
	inClusterDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	maxRoots     = 1 << 20
)

// inCluster fills in the values that a pod has by default, but only when all of them
// are absent: the token of one cluster must not be sent to the server of another.
func (c *Config) inCluster(bad func(string, ...any)) {
	if c.Server != "" {
		if c.TokenFile == "" {
			bad("token_file is missing; name the file with ebb's own token for the API server in server")
		}
		return
	}
	if c.TokenFile != "" || c.CAFile != "" {
		bad("server is missing; name the API server that token_file and ca_file are for, or leave out all three when ebb runs in the cluster")
		return
	}
	getenv := c.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		bad("server is missing, and ebb does not run in a pod; set server, ca_file and token_file")
		return
	}
	c.Server = "https://" + net.JoinHostPort(host, port)
	c.TokenFile, c.CAFile = filepath.Join(inClusterDir, "token"), filepath.Join(inClusterDir, "ca.crt")
}

// readLogin reads ebb's own token. It is called for each request, because the kubelet
// replaces the token after 80% of its lifetime.
func readLogin(path string) (string, error) {
	s, err := secret.Read(path)
	if err != nil {
		return "", fmt.Errorf("reading ebb's login: %w", err)
	}
	text := strings.TrimRight(s.Reveal(), "\r\n")
	if text == "" {
		return "", fmt.Errorf("reading ebb's login: %s contains only line ends: write the token into it", path)
	}
	for i := 0; i < len(text); i++ {
		if text[i] <= ' ' || text[i] > '~' {
			return "", fmt.Errorf("reading ebb's login: %s does not contain exactly one token", path)
		}
	}
	return text, nil
}

// roots returns the certificates in CAFile, nil for those of the system.
func (c *Config) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil //nolint:nilnil // nil means the system's
	}
	b, err := fetch.ReadFile(c.CAFile, maxRoots)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("ca_file: %s contains no certificate in PEM", c.CAFile)
	}
	return pool, nil
}
