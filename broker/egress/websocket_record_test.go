package egress_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"golang.org/x/net/websocket"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// TestWebSocketIsOnTheRecord: the audit log has an entry before the handshake is sent, and one at
// the end, with status, bytes in both directions, and the number of secrets.
func TestWebSocketIsOnTheRecord(t *testing.T) {
	t.Parallel()
	b := newBed(t, sockets)
	x := b.sandbox(t)
	ws, err := x.socketTo(t, "/ws/echo", "Bearer "+x.placeholder(t, "stripe:charges:listen"))
	if err != nil {
		t.Fatal(err)
	}
	heard := len("you are Bearer " + canary)
	if err := websocket.Message.Receive(ws, new(string)); err != nil {
		t.Fatal(err)
	}
	if uses := b.uses(t, x.s.Task.ID); len(uses) != 1 || uses[0].Kind != audit.EgressAllowed {
		t.Errorf("while it is open: %+v", uses)
	}
	const said = "hello"
	var echo string
	if err := websocket.Message.Send(ws, said); err != nil {
		t.Fatal(err)
	}
	if err := websocket.Message.Receive(ws, &echo); err != nil || echo != said {
		t.Fatalf("%q, %v", echo, err)
	}
	_ = ws.Close() // after its close frame the proxy may end TLS first, which is an error here
	var uses []audit.Entry
	until(t, "its end is in the audit log", func() bool { uses = b.uses(t, x.s.Task.ID); return len(uses) == 2 })
	var first, last broker.Exchange
	if err := json.Unmarshal(uses[0].Data, &first); err != nil || first.Method != http.MethodGet || first.Path != "/ws/echo" || first.Status != 0 {
		t.Errorf("allowed: %s, %v", uses[0].Data, err)
	}
	// Frames have headers of a few bytes, and the last ones are close frames.
	within := func(n int64, text int) bool { return n > int64(text) && n < int64(text)+32 }
	if err := json.Unmarshal(uses[1].Data, &last); err != nil || uses[1].Kind != audit.EgressCompleted || last.Status != http.StatusSwitchingProtocols || last.Redacted != 1 ||
		last.Cut || last.Reason != "" || !within(last.Sent, len(said)) || !within(last.Received, heard+len(said)) {
		t.Errorf("completed: %s, %v", uses[1].Data, err)
	}
}
