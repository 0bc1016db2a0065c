package ask

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"ebb/broker"
	"ebb/web"
	"ebb/web/client"
)

// Sandbox asks in the sandbox's name; *client.Sandbox does.
type Sandbox interface {
	Token(ctx context.Context, r client.TokenRequest) (client.Credential, error)
	Credentials(ctx context.Context) ([]client.Given, error)
	RevokeLease(ctx context.Context, leaseID string) error
}

// Config is what Serve needs.
type Config struct {
	Sandbox Sandbox
	// Prove signs the proof of one request with the sandbox's key.
	Prove func(method, url, token string) (string, error)
	// Complete ends the task, in the runner's name; nil = the box may not.
	Complete func(context.Context) (Completed, error)
	// Keyless: no key of who asks is certified, because its private half would be in the box.
	Keyless bool
	// Tool is the one that all the box asks for is asked for; "" = as the box says.
	Tool string
	// Asked is called when a person has to decide; nil = nobody wants to know.
	Asked func(client.TokenRequest)
}

// Bounds of one box. Those beyond wait; what ends something does not wait for questions
// that wait for people.
const (
	maxConns   = 64 // connections
	maxWaiting = 32 // questions that are answered at one time
	maxEnding  = 8  // ends
)

// replyTime is how long a box may take to read an answer.
const replyTime = 30 * time.Second

// Serve answers a box until ctx is done or the listener fails. It closes the listener.
func Serve(ctx context.Context, l net.Listener, c Config) error {
	asking, ending := make(chan struct{}, maxWaiting), make(chan struct{}, maxEnding)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+tokenPath, func(w http.ResponseWriter, r *http.Request) {
		f := &flow{w: w}
		handle(w, r, asking, f.reply, func(ctx context.Context, q question) (answer, error) { return c.token(ctx, q, f) })
	})
	mux.HandleFunc("POST "+provePath, one(asking, c.prove))
	mux.HandleFunc("POST "+listPath, one(asking, c.list))
	mux.HandleFunc("POST "+revokePath, one(ending, c.revoke))
	mux.HandleFunc("POST "+completePath, one(ending, c.complete))
	s := &http.Server{
		Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	err := s.Serve(web.Capped(l, maxConns))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// one answers a question with one document.
func one[Q, A any](slots chan struct{}, do func(context.Context, Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, slots, func(status int, body any) { reply(w, status, body) }, do)
	}
}

// handle reads one question strictly and answers it.
func handle[Q, A any](w http.ResponseWriter, r *http.Request, slots chan struct{}, reply func(int, any), do func(context.Context, Q) (A, error)) {
	var q Q
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(&q)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one question")
		}
	}
	if err != nil {
		reply(http.StatusBadRequest, refusal{Status: http.StatusBadRequest, Kind: "invalid_request", Detail: "The question is not one. Use the ebb that is in the box."})
		return
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-r.Context().Done():
		return
	}
	a, err := do(r.Context(), q)
	if err != nil {
		f := refusalOf(err)
		reply(f.Status, f)
		return
	}
	reply(http.StatusOK, a)
}

func reply(w http.ResponseWriter, status int, body any) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(replyTime)) // every connection of the server has one
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // who asked may be gone
}

func (c Config) token(ctx context.Context, q question, f *flow) (answer, error) {
	t := client.TokenRequest{
		Scope: q.Scope, Resource: q.Resource, TTL: time.Duration(q.TTLSeconds) * time.Second, Tool: q.Tool, Reason: q.Reason, Wait: q.Wait, PublicKey: q.PublicKey, Delivery: q.Delivery,
	}
	if c.Tool != "" {
		t.Tool = c.Tool
	}
	if c.Keyless && q.PublicKey != "" {
		return answer{}, &client.Problem{Status: http.StatusForbidden, Kind: broker.Forbidden, Detail: "No key of a box is certified. Start it with ebb run --ssh HOST=SCOPE: the key is then the runner's."}
	}
	t.Pending = func(p client.Pending) {
		if c.Asked != nil {
			c.Asked(t)
		}
		if q.Told {
			f.wait(p)
		}
	}
	cred, err := c.Sandbox.Token(ctx, t)
	if err != nil {
		return answer{}, err
	}
	return answer{
		Token: cred.Token.Reveal(), Type: cred.Type, Format: cred.Format, ExpiresAt: cred.ExpiresAt, Scope: cred.Scope, Resource: cred.Resource, LeaseID: cred.LeaseID, Class: cred.Class, Endpoint: cred.Endpoint,
	}, nil
}

func (c Config) list(ctx context.Context, _ listQuestion) (listAnswer, error) {
	items, err := c.Sandbox.Credentials(ctx)
	return listAnswer{items}, err
}

func (c Config) revoke(ctx context.Context, q revokeQuestion) (revokeAnswer, error) {
	return revokeAnswer{}, c.Sandbox.RevokeLease(ctx, q.LeaseID)
}

func (c Config) complete(ctx context.Context, _ completeQuestion) (Completed, error) {
	if c.Complete == nil {
		return Completed{}, &client.Problem{Status: http.StatusForbidden, Kind: broker.Forbidden, Detail: "The runner ends this task by itself. Just exit."}
	}
	return c.Complete(ctx)
}

func (c Config) prove(_ context.Context, q proofQuestion) (proofAnswer, error) {
	proof, err := c.Prove(q.Method, q.URL, q.Token)
	return proofAnswer{Proof: proof}, err
}
