package client_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// upgrading is an ebb behind TLS that offers HTTP/2. It echoes the forwarded
// bytes.
func upgrading(t *testing.T, answer string) (*httptest.Server, *client.Operator) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/oauth2/token":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":"ACCESS","token_type":"DPoP","expires_in":300}`)
		case strings.HasSuffix(r.URL.Path, "/close"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"`+r.Proto+`"}`)
		case answer == "" || r.ProtoMajor != 1:
			w.WriteHeader(http.StatusOK)
		default:
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, answer)
			_, _ = io.Copy(conn, rw)
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: srv.URL, HTTP: srv.Client()}, ClientID: "runner", Key: brokertest.NewKey(t)})
	if err != nil {
		t.Fatal(err)
	}
	return srv, o
}

// TestConnectEndpoint: a connection is forwarded by HTTP/1.1, also if the client has
// used HTTP/2 with ebb before, and outlives the call that made it.
func TestConnectEndpoint(t *testing.T) {
	t.Parallel()
	_, o := upgrading(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ebb-egress\r\n\r\n")
	box := wire.EgressEndpoint{ID: "egr_1", TaskID: "tsk_1"}
	if x, err := o.Endpoints.Close(t.Context(), box); err != nil || x.ID != "HTTP/2.0" {
		t.Fatalf("the call before went by %s: %v", x.ID, err)
	}
	for range 2 {
		c, err := o.Endpoints.Connect(t.Context(), box)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "said\n"); err != nil {
			t.Error(err)
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "said\n" {
			t.Errorf("%q, %v", line, err)
		}
		_ = c.Close()
	}
}

// TestConnectEndpointToSomethingElse: a response without the upgrade to egress is an
// error.
func TestConnectEndpointToSomethingElse(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n",
	} {
		_, o := upgrading(t, answer)
		if c, err := o.Endpoints.Connect(t.Context(), wire.EgressEndpoint{ID: "egr_1", TaskID: "tsk_1"}); err == nil {
			_ = c.Close()
			t.Errorf("%q is a connection", answer)
		}
	}
}
