package awskeys

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"ebb/web"
	"ebb/web/client"
)

// Path is where the keys are.
const Path = "/credentials"

// Bounds of one box. Those beyond wait.
const (
	maxConns   = 16 // connections
	maxWaiting = 8  // questions that are answered at one time
)

// Config is what Serve needs.
type Config struct {
	// Authorization is what a client must say, as AWS_CONTAINER_AUTHORIZATION_TOKEN has it: a page
	// that a browser in the box shows can send requests to loopback, and does not know it.
	Authorization string
	// Get asks ebb. It is called for each question: what ebb has given already it gives again.
	Get func(context.Context) (client.Credential, error)
}

// Serve answers SDKs of AWS (container credentials) until ctx is done or the listener fails. It
// closes the listener.
func Serve(ctx context.Context, l net.Listener, c Config) error {
	slots := make(chan struct{}, maxWaiting)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		if c.Authorization == "" || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(c.Authorization)) != 1 {
			reply(w, http.StatusForbidden, refusal{"AccessDenied", "AWS_CONTAINER_AUTHORIZATION_TOKEN is not what the runner gave this box."})
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

// refusal is what SDKs show to people.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// refusalOf keeps ebb's own words; of other failures the box learns that there was one.
func refusalOf(err error) (int, refusal) {
	if errors.Is(err, ErrOther) {
		return http.StatusForbidden, refusal{"AccessDenied", "The scope is of no provider of kind aws."}
	}
	p, is := errors.AsType[*client.Problem](err)
	if !is || p.Status < 400 || p.Status > 599 {
		return http.StatusServiceUnavailable, refusal{"ServiceUnavailable", "The runner could not ask ebb. Try again."}
	}
	return p.Status, refusal{string(p.Kind), p.Detail}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // who asked may be gone
}
