package ask

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// Sandbox acts in the sandbox's name; *client.Sandbox implements it.
type Sandbox interface {
	Token(ctx context.Context, r client.TokenRequest) (client.Credential, error)
	Credentials(ctx context.Context) ([]wire.OwnCredential, error)
	RevokeLease(ctx context.Context, leaseID string) error
}

// Config configures Serve.
type Config struct {
	Sandbox Sandbox
	// Prove signs the proof of one request with the sandbox's key.
	Prove func(method, url, token string) (string, error)
	// Complete completes the task in the runner's name; nil = the sandbox may
	// not.
	Complete func(context.Context) (Completed, error)
	// Keyless: no key of the caller is certified, because its private key would
	// be in the sandbox.
	Keyless bool
	// Tool replaces the tool of every request; "" = the client names it.
	Tool string
	// Asked is called when a request waits for an approval. It may be nil.
	Asked func(client.TokenRequest, client.Pending)
}

// Bounds of one sandbox. Requests beyond them wait. Revocation and completion
// have slots of their own, so that they need not wait for requests that wait
// for approvals.
const (
	maxConns   = 64 // connections
	maxWaiting = 32 // token requests, proofs and lists handled at one time
	maxEnding  = 8  // revocations and completions
)

// replyTime is how long a client may take to read a response.
const replyTime = 30 * time.Second

// Serve serves a sandbox until ctx is done or the listener fails. It closes the
// listener.
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

// one handles a request whose response is one document.
func one[Q, A any](slots chan struct{}, do func(context.Context, Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, slots, func(status int, body any) { reply(w, status, body) }, do)
	}
}

// handle decodes one request strictly and responds to it.
func handle[Q, A any](w http.ResponseWriter, r *http.Request, slots chan struct{}, reply func(int, any), do func(context.Context, Q) (A, error)) {
	var q Q
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(&q)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("the body has more than one document")
		}
	}
	if err != nil {
		reply(http.StatusBadRequest, refusal{Status: http.StatusBadRequest, Kind: "invalid_request", Detail: "The request body is not valid. Use the ebb binary of the sandbox."})
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
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(replyTime)) // every connection of the server has a write deadline
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

func (c Config) token(ctx context.Context, q question, f *flow) (answer, error) {
	if _, err := scopes.ParseSet(q.Scope); err != nil {
		return answer{}, &client.Problem{Status: http.StatusBadRequest, Kind: wire.KindInvalidScope, Detail: "scope: " + err.Error()}
	}
	t := client.TokenRequest{
		Scope: q.Scope, Resource: q.Resource, TTL: time.Duration(q.TTLSeconds) * time.Second, Tool: q.Tool, Reason: q.Reason, Wait: q.Wait, PublicKey: q.PublicKey, Delivery: q.Delivery, Content: q.Content,
	}
	if c.Tool != "" {
		t.Tool = c.Tool
	}
	if c.Keyless && q.PublicKey != "" {
		return answer{}, &client.Problem{Status: http.StatusForbidden, Kind: wire.KindForbidden, Detail: "Keys of a sandbox are not certified. Start the sandbox with ebb run --ssh HOST=SCOPE: the runner then keeps the key."}
	}
	t.Pending = func(p client.Pending) {
		if c.Asked != nil {
			c.Asked(t, p)
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
		return Completed{}, &client.Problem{Status: http.StatusForbidden, Kind: wire.KindForbidden, Detail: "The runner completes this task when the command exits. Exit instead."}
	}
	return c.Complete(ctx)
}

func (c Config) prove(_ context.Context, q proofQuestion) (proofAnswer, error) {
	proof, err := c.Prove(q.Method, q.URL, q.Token)
	return proofAnswer{Proof: proof}, err
}
