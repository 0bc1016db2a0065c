// Command foreign is a program of a module of its own that uses ebb's client and resource-server middleware. TestForeignModule
// puts the module path of ebb in the place of MODULE, builds it and runs it against a live ebb.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"MODULE/attest/jose"
	"MODULE/web/client"
	"MODULE/web/verify"
	"MODULE/web/wire"
)

// roundTrip is an http.RoundTripper of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// main takes the issuer, the resource, and the names and key files of a runner and a resource server.
func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	issuer, resource := os.Args[1], os.Args[2]
	config := client.Config{Issuer: issuer}
	runner := must(client.NewOperator(client.OperatorConfig{Config: config, ClientID: os.Args[3], Key: must(client.LoadKey(os.Args[4]))}))
	task, ticket, err := runner.Tasks.Open(ctx, wire.TaskSpec{
		Name: "foreign", Kind: "test", TTL: 600, Ceiling: "orders:eu/**:read", Expect: wire.Expect{Attestor: "enroll"}, Ticket: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	sandbox := must(client.NewSandbox(client.SandboxConfig{Config: config, Key: must(client.NewKey(jose.ES256))}))
	must(sandbox.Enrol(ctx, ticket.Ticket))
	cred := must(sandbox.Token(ctx, client.TokenRequest{Scope: "orders:eu/42:read", Resource: resource}))

	shop := must(verify.New(verify.Config{Issuer: issuer, Resource: resource, ClientID: os.Args[5], Key: must(client.LoadKey(os.Args[6])), AnyScope: true}))
	go func() { _ = shop.Run(ctx) }()
	for shop.Ready() != nil && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		shop.Handler(func(w http.ResponseWriter, _ *http.Request, t *verify.Token) { _, _ = fmt.Fprint(w, t.TaskID) }).ServeHTTP(w, r)
		return w.Result(), nil
	})
	use := func() int {
		req := must(http.NewRequestWithContext(ctx, http.MethodGet, resource+"eu/42", nil))
		return must(sandbox.Transport(cred, transport).RoundTrip(req)).StatusCode
	}
	before := use()
	end := must(runner.Tasks.Complete(ctx, task.ID))
	after := use()
	for after == http.StatusOK && ctx.Err() == nil { // until the feed has said so
		after = use()
	}
	_, err = sandbox.Token(ctx, client.TokenRequest{Scope: "orders:eu/42:read"})
	fmt.Println(cred.Type, cred.Scope, before, end.Task.State, end.Revoked, after, err != nil)
}
