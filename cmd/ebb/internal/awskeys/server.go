package awskeys

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/client"
)

// Path is the URL path of the access key.
const Path = "/credentials"

// Bounds of one sandbox. Requests beyond them wait.
const (
	maxConns   = 16 // connections
	maxWaiting = 8  // requests handled at one time
)

// Config configures Serve.
type Config struct {
	// Authorization is the Authorization header that a client must send
	// (AWS_CONTAINER_AUTHORIZATION_TOKEN). A web page in a browser of the sandbox
	// can send requests to loopback, but does not know the token.
	Authorization string
	// Get requests the credential from ebb. It is called for each request; ebb
	// returns an issued credential again.
	Get func(context.Context) (client.Credential, error)
}

// Serve serves container credentials to AWS SDKs until ctx is done or the
// listener fails. It closes the listener.
func Serve(ctx context.Context, l net.Listener, c Config) error {
	slots := make(chan struct{}, maxWaiting)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		if c.Authorization == "" || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(c.Authorization)) != 1 {
			reply(w, http.StatusForbidden, refusal{"AccessDenied", "The Authorization header is not the AWS_CONTAINER_AUTHORIZATION_TOKEN of this sandbox."})
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-r.Context().Done():
			return
		}
		keys, err := c.keys(r.Context())
		if err != nil {
			status, f := refusalOf(err)
			reply(w, status, f)
			return
		}
		reply(w, http.StatusOK, keys.container())
	})
	s := &http.Server{
		Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	err := s.Serve(web.Capped(l, maxConns))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (c Config) keys(ctx context.Context) (Keys, error) {
	cred, err := c.Get(ctx)
	if err != nil {
		return Keys{}, err
	}
	return Of(cred)
}

// refusal is an error response, which SDKs show to the user.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// refusalOf passes ebb's own problem on. Of any other error the sandbox learns
// only that the request failed.
func refusalOf(err error) (int, refusal) {
	if errors.Is(err, ErrOther) {
		return http.StatusForbidden, refusal{"AccessDenied", "The scope does not belong to a provider of kind aws."}
	}
	p, is := errors.AsType[*client.Problem](err)
	if !is || p.Status < 400 || p.Status > 599 {
		return http.StatusServiceUnavailable, refusal{"ServiceUnavailable", "The runner could not reach ebb. Try again."}
	}
	return p.Status, refusal{string(p.Kind), p.Detail}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
