package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// pretend answers like an ebb, so that the examples run without one.
func pretend() *httptest.Server {
	mux := http.NewServeMux()
	answer := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, body)
		})
	}
	answer("/oauth2/token", `{"access_token":"token","token_type":"DPoP","expires_in":300,"scope":"orders:eu/42:read","lease_id":"lse_1"}`)
	answer("/v1/enroll", `{"task_token":"tt","token_type":"DPoP","expires_at":"2030-01-01T00:00:00Z","task_id":"tsk_1","client_id":"sbx_1"}`)
	answer("/v1/tasks", `{"task":{"id":"tsk_1","state":"open"},"ticket":"ebb_tkt_1","ticket_expires_at":"2030-01-01T00:00:00Z"}`)
	answer("/v1/tasks/tsk_1/complete", `{"task":{"id":"tsk_1","state":"closed"},"revoked":1,"credentials":[],"pending_revocations":0}`)
	return httptest.NewServer(mux)
}

// A runner opens a task, hands the ticket to the sandbox, and completes the task.
func ExampleOperator() {
	srv := pretend()
	defer srv.Close()
	ctx := context.Background()
	key, err := client.NewKey(jose.ES256) // in reality LoadKey, of the key that is registered for the runner
	if err != nil {
		fmt.Println(err)
		return
	}
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: srv.URL}, ClientID: "runner", Key: key})
	if err != nil {
		fmt.Println(err)
		return
	}
	task, ticket, err := o.Tasks.Open(ctx, wire.TaskSpec{
		Name: "fix order 42", Kind: "bugfix", TTL: 600, Ceiling: "orders:eu/**:read", Expect: wire.Expect{Attestor: "enroll"}, Ticket: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(task.State, ticket.Ticket)
	end, err := o.Tasks.Complete(ctx, task.ID)
	fmt.Println(end.Task.State, end.Revoked, err)
	// Output:
	// open [redacted]
	// closed 1 <nil>
}

// A sandbox enrols with its ticket, asks for a credential, and uses it at the resource server.
func ExampleSandbox() {
	srv := pretend()
	defer srv.Close()
	ctx := context.Background()
	key, err := client.NewKey(jose.EdDSA)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: srv.URL}, Key: key})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := s.Enrol(ctx, secret.New("ebb_tkt_1")); err != nil {
		fmt.Println(err)
		return
	}
	cred, err := s.Token(ctx, client.TokenRequest{Scope: "orders:eu/42:read", Resource: "https://orders.example", Reason: "read the order"})
	if client.IsKind(err, wire.KindAskRequired) {
		fmt.Println("a person must approve: ask again with Wait")
		return
	}
	fmt.Println(cred.Type, cred.Scope, cred.Token, err)
	orders := &http.Client{Transport: s.Transport(cred, nil)} // adds the token and a fresh proof to each request
	_ = orders
	// Output: DPoP orders:eu/42:read [redacted] <nil>
}
