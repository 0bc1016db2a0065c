package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/verify"
)

// exampleServer implements ebb example server: a resource server on this machine, and the example of package verify.
type exampleServer struct{ *cli }

func newExample(c *cli) *cobra.Command {
	var listen string
	server := &cobra.Command{
		Use: "server", Short: "Run a small resource server that accepts this ebb's tokens", Args: cobra.NoArgs,
		Long: `Run a small HTTP server on this machine that accepts tokens of the ebb on this machine, and
prints each request with the person, the task and the scope of its token. A GET or HEAD of /PATH
needs the scope local:PATH:read, every other method local:PATH:write. The server follows the
revocation feed as the principal local-resource-server, whose key is resource-server.key in the
data directory; that key can read the feed and introspect tokens of the provider local, and
nothing else.`,
	}
	f := server.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "loopback `address` to listen on; port 0 = a free port")
	f.StringVar(&c.url, "url", c.env("EBB_URL"), "public URL of ebb (EBB_URL); default: the ebb of this user on this machine")
	f.StringVar(&c.clientID, "client-id", c.env("EBB_CLIENT_ID"), "principal to act as (EBB_CLIENT_ID); default: the one in the key file")
	f.StringVar(&c.keyFile, "key", c.env("EBB_KEY_FILE"), "private key `file` (EBB_KEY_FILE); default: resource-server.key in the data directory")
	c.trust(server)
	server.RunE = c.do(func(cmd *cobra.Command, _ []string) error { return exampleServer{c}.run(cmd.Context(), listen) })
	return c.group("example", "Run small programs that use ebb", server)
}

// proofWindow is the longest age of a proof: short, because client and server have one clock.
const proofWindow = 5 * time.Second

// run serves until ctx ends.
func (e exampleServer) run(ctx context.Context, listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || !fetch.Loopback(host) {
		return usage("--listen "+listen+" is not a loopback address with a port", "write it like --listen 127.0.0.1:8080: the server has no TLS")
	}
	key, id, err := e.identity(resourceKey)
	if err != nil {
		return err
	}
	peer, err := e.peer()
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fail(err.Error(), "choose another --listen, such as 127.0.0.1:0")
	}
	url := "http://" + l.Addr().String()
	v, err := verify.New(verify.Config{
		Replay: &usedProofs{until: map[string]time.Time{}}, Issuer: peer.Issuer, Resource: peer.Issuer + localPath, PublicURL: url, RequireScopes: exampleScope,
		ClientID: id, Key: key.Key, HTTP: peer.HTTP, DPoPWindow: proofWindow, Log: slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return errors.Join(usage(err.Error(), "check --url and --key"), l.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = v.Run(ctx) }()
	mux := http.NewServeMux()
	mux.Handle(v.MetadataPath(), v.Metadata())
	mux.Handle("/", v.Handler(e.answer))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	e.ready(ctx, v, url)
	if err := s.Serve(l); ctx.Err() == nil {
		return fail(err.Error(), "start it again")
	}
	return nil
}

// ready prints the address when the server can verify tokens, and all proofs from before its start are too old.
func (e exampleServer) ready(ctx context.Context, v *verify.Verifier, url string) {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	start := time.Now()
	e.sayf("starting: it takes 6 s, after which no proof from before the start is valid\n")
	for v.Ready() != nil || time.Since(start) < proofWindow+time.Second { // iat has whole seconds
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
	e.printf("listening on %s: GET /PATH needs the scope %s:PATH:read, other methods %s:PATH:write\n", url, config.LocalProvider, config.LocalProvider)
}

// usedProofs stores used proofs until they are too old. Unlike verify.NewReplay it requires no nonce, which curl does not
// send, after a start: the server answers only when every proof from before its start is too old.
type usedProofs struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// Claim implements verify.Replay.
func (u *usedProofs) Claim(_ context.Context, p dpop.Proof) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.until, func(_ string, until time.Time) bool { return time.Now().After(until) })
	_, used := u.until[p.ReplayKey]
	u.until[p.ReplayKey] = p.Until
	return !used, nil
}

// exampleScope returns the scope that a request needs: the empty set, which denies, for a path that no scope can name.
func exampleScope(r *http.Request) (scopes.Set, error) {
	action := "write"
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		action = "read"
	}
	s, err := scopes.New(config.LocalProvider, strings.Trim(r.URL.EscapedPath(), "/"), action)
	if err != nil || s.IsPattern() {
		return scopes.Set{}, nil
	}
	return scopes.NewSet(s)
}

// answer prints the request with its task and owner, and responds to it.
func (e exampleServer) answer(w http.ResponseWriter, r *http.Request, t *verify.Token) {
	line := fmt.Sprintf("%s %s: for %s, task %s, scope %s", out.Line(r.Method), out.Line(r.URL.EscapedPath()), out.Line(t.Subject), out.Line(t.TaskID), t.Scope)
	e.printf("%s\n", line)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprintln(w, line)
}
