package egress

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"
)

type closing struct{ bytes.Buffer }

func (*closing) Close() error { return nil }

// E100: data that was in transit when a WebSocket was disconnected is not passed on, in either
// direction.
//
//ebb:invariant I2 Data in transit when a WebSocket is disconnected is not forwarded in either direction
func TestNothingOfACutWebSocket(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &outbound{ctx: ctx, disconnect: cancel, b: &endpoint{p: &Proxy{cfg: Config{RequestBytes: 100, TaskBytes: 100, SocketTime: time.Hour}}}}
	body := &closing{}
	w := &webSocket{body: body, from: body, s: s, task: new(atomic.Int64), idle: time.AfterFunc(time.Hour, func() {})}
	if n, err := w.Write([]byte("one two")); n != 7 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := w.Read(make([]byte, 4)); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	cancel(ErrOver)
	if n, err := w.Read(make([]byte, 4)); n != 0 || err != ErrOver {
		t.Errorf("read %d, %v", n, err)
	}
	if n, err := w.Write([]byte("more")); n != 0 || err != ErrOver || body.Len() != 0 {
		t.Errorf("wrote %d, %v; %q is there", n, err, body)
	}
}
