package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/mcp"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// raw sends bytes to a Service without an SDK.
func raw(t *testing.T, s mcp.Sandbox) (say func(string), lines *bufio.Scanner, hangUp func() error) {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.New(ctx, mcp.Config{Sandbox: s, Version: "test"}).Serve(ctx, in, out)
		_, _ = in.Close(), out.Close()
	}()
	lines = bufio.NewScanner(fromServer)
	return func(text string) { _, _ = io.WriteString(toServer, text) }, lines, func() error {
		_ = toServer.Close()
		go func() { _, _ = io.Copy(io.Discard, fromServer) }()
		return <-ended
	}
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n" +
	`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"

const askOnce = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"request_credential","arguments":{"scope":"orders:eu/42:read"}}}` + "\n"

// idle is a sandbox that must not be called.
type idle struct{ t *testing.T }

func (s idle) Token(context.Context, client.TokenRequest) (client.Credential, error) {
	s.t.Error("ebb was asked for a credential")
	return client.Credential{}, errors.New("asked")
}

func (s idle) Credentials(context.Context) ([]wire.OwnCredential, error) {
	s.t.Error("ebb was asked for a list")
	return nil, errors.New("asked")
}

func (s idle) RevokeLease(context.Context, string) error {
	s.t.Error("ebb was asked to end something")
	return errors.New("asked")
}

// Invalid JSON-RPC, a message that is too long, or a batch (not part of the
// protocol) has no effect; the client is disconnected or gets an error, and the
// process continues.
func TestGarbage(t *testing.T) {
	t.Parallel()
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_credentials","arguments":{}}}`
	for name, text := range map[string]string{
		"no JSON": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "half of it": `{"jsonrpc":"2.0","id":2,"method":`, "a number": "7\n", "null": "null\n",
		"bytes": "\x00\xff\xfe\n", "too much": `{"jsonrpc":"2.0","id":2,"method":"` + strings.Repeat("x", 300<<10) + `"}` + "\n",
		"deep": strings.Repeat("[", 100_000) + "\n", "a batch": "[" + call + "," + call + "]\n", "an empty batch": "[]\n",
		"another version":         `{"jsonrpc":"1.0","id":2,"method":"tools/call","params":{"name":"list_credentials"}}` + "\n",
		"an unknown tool":         `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_secret","arguments":{}}}` + "\n",
		"arguments that are text": `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_credentials","arguments":"{}"}}` + "\n",
		"two of a name":           `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_credentials","arguments":{"a":1,"a":2}}}` + "\n",
	} {
		say, lines, hangUp := raw(t, idle{t})
		read := make(chan struct{})
		go func() {
			defer close(read)
			for lines.Scan() {
				if !json.Valid(lines.Bytes()) || strings.Contains(lines.Text(), "lse_") {
					t.Errorf("%s: answered %q", name, lines.Text())
				}
			}
		}()
		say(hello)
		say(text)
		_ = hangUp() // the error depends on the transport
		<-read
	}
}

// slow is a sandbox that responds when the test releases it.
type slow struct {
	idle
	asked, answer chan struct{}
	ended         chan string
}

func (s slow) Token(context.Context, client.TokenRequest) (client.Credential, error) {
	close(s.asked)
	<-s.answer
	return client.Credential{Type: "DPoP", Scope: "orders:eu/42:read", LeaseID: "lse_1"}, nil
}

func (s slow) RevokeLease(_ context.Context, id string) error { s.ended <- id; return nil }

// A client that disconnects while ebb mints leaves no unused credential.
//
//ebb:invariant I2 The MCP server revokes a credential that was minted for a client and is not returned to a client
func TestClientDies(t *testing.T) {
	t.Parallel()
	s := slow{idle{t}, make(chan struct{}), make(chan struct{}), make(chan string, 2)}
	say, lines, hangUp := raw(t, s)
	go func() { say(hello); say(askOnce) }()
	if !lines.Scan() {
		t.Fatal("no answer")
	}
	<-s.asked
	done := make(chan error, 1)
	go func() { done <- hangUp() }()
	close(s.answer)
	if id := <-s.ended; id != "lse_1" {
		t.Errorf("ended %q", id)
	}
	if err := <-done; err != nil {
		t.Errorf("the end: %v", err)
	}
}

// lying is a server that returns a secret as a placeholder, and fails to
// revoke.
type lying struct {
	idle
	cred client.Credential
}

func (s lying) Token(context.Context, client.TokenRequest) (client.Credential, error) {
	return s.cred, nil
}

func (s lying) RevokeLease(context.Context, string) error {
	return &client.Problem{Status: 503, Kind: wire.KindUnavailable}
}

// A token that is wrongly marked as a placeholder is not returned, and a
// credential that could not be revoked is named, so that the agent can revoke
// it.
//
//ebb:invariant I8 The MCP server shows a token to its client only if the whole token is a valid placeholder
func TestNoPlaceholder(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"eyJ.secret.x", "ebb-placeholder.", "ebb-placeholder.eyJ.secret.x", "ebb-placeholder.lse_1 secret", "ebb-placeholder.LSE_00000000000000000000000000000000"} {
		s := lying{idle{t}, client.Credential{Token: secret.New(token), Type: "N_A", Format: "urn:ebb:token-type:placeholder", Scope: "orders:eu/42:read", LeaseID: nobodys}}
		say, lines, hangUp := raw(t, s)
		go func() { say(hello); say(askOnce) }()
		lines.Scan()
		lines.Scan()
		if strings.Contains(lines.Text(), token) || !strings.Contains(lines.Text(), "by_command") || !strings.Contains(lines.Text(), nobodys) {
			t.Errorf("%s: %s", token, lines.Text())
		}
		if err := hangUp(); err != nil {
			t.Error(err)
		}
	}
}
