package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/mcp"
	"github.com/ebb-broker/ebb/web/wire"
)

// idle is a sandbox that makes no request.
type idle struct{ mcp.Sandbox }

func (idle) Credentials(context.Context) ([]wire.OwnCredential, error) { return nil, nil }

// stopped is a service whose completion of the task stops the command before
// the response, as a runner does.
func stopped(t *testing.T) (context.Context, *mcp.Service) {
	told, tell := context.WithCancel(t.Context())
	t.Cleanup(tell)
	return told, mcp.New(told, mcp.Config{Sandbox: idle{}, Version: "test", Complete: func(context.Context) (mcp.Completed, error) {
		tell()
		time.Sleep(50 * time.Millisecond) // the signal is handled meanwhile
		return mcp.Completed{Revoked: 7}, nil
	}})
}

// TestLastAnswer: a command that is stopped because a call completed its task
// still responds to that call, on standard streams and over HTTP, and then
// stops.
func TestLastAnswer(t *testing.T) {
	t.Parallel()
	transports := map[string]func(*testing.T, context.Context, *mcp.Service, chan<- error) sdk.Transport{
		"streams": func(_ *testing.T, told context.Context, s *mcp.Service, over chan<- error) sdk.Transport {
			in, toServer := io.Pipe()
			fromServer, out := io.Pipe()
			go func() {
				err := serveStdio(told, s, in, out)
				_ = out.Close()
				over <- err
			}()
			return &sdk.IOTransport{Reader: fromServer, Writer: toServer}
		},
		"HTTP": func(t *testing.T, told context.Context, s *mcp.Service, over chan<- error) sdk.Transport {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			url := "http://" + l.Addr().String() + "/mcp"
			h, err := s.Handler(mcp.HTTPConfig{Resource: url, Hosts: []string{l.Addr().String()}})
			if err != nil {
				t.Fatal(err)
			}
			go func() { over <- serveMCP(told, l, nil, h) }()
			return &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: &http.Transport{}}}
		},
	}
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told, s := stopped(t)
			over := make(chan error, 1)
			session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), transport(t, told, s, over), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := call(t, session, "complete_task", nil); !strings.Contains(got, `"revoked":7`) {
				t.Errorf("the answer: %s", got)
			}
			if err := <-over; err != nil {
				t.Errorf("the end: %v", err)
			}
			_ = session.Close()
		})
	}
}

// TestUnauthenticatedIsForASandbox: outside of a sandbox every program of the
// machine reaches loopback.
//
//ebb:invariant I2 The MCP server over HTTP accepts clients without a token only on loopback inside a sandbox of `ebb run`
func TestUnauthenticatedIsForASandbox(t *testing.T) {
	t.Parallel()
	for listen, ok := range map[string]map[bool]bool{"127.0.0.1:0": {true: true, false: false}, "192.0.2.1:1": {true: false, false: false}} {
		for inSandbox, want := range ok {
			m := mcpFlags{listen: listen, open: true}
			if _, err := m.check(inSandbox); (err == nil) != want {
				t.Errorf("%s, in a sandbox: %v: %v", listen, inSandbox, err)
			}
		}
	}
}
