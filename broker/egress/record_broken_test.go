package egress_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// over returns the completion entry of a task's only request.
func (b *bed) over(t *testing.T, task string) (x broker.Exchange) {
	t.Helper()
	until(t, "the end is in the audit log", func() bool {
		all := b.uses(t, task)
		if len(all) == 0 {
			return false
		}
		last := all[len(all)-1]
		return last.Kind == audit.EgressCompleted && json.Unmarshal(last.Data, &x) == nil
	})
	return x
}

// A response that its upstream breaks off is recorded as interrupted.
//
//ebb:invariant I11 A response that breaks off is recorded in the audit log as interrupted
func TestAnswerThatBreaksOffIsOnTheRecord(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{true, false} {
		b := newBed(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", map[bool]string{true: "9", false: "100"}[whole])
			_, _ = io.WriteString(w, "beginning")
			_ = http.NewResponseController(w).Flush()
			if !whole {
				panic(http.ErrAbortHandler)
			}
		})
		x := b.sandbox(t)
		p := x.placeholder(t, "stripe:charges:read")
		_, _, _ = try(t, x.client(t, false), "GET", "https://"+b.host+"/v1/charges", "", "Authorization", "Bearer "+p)
		if got := b.over(t, x.s.Task.ID); got.Cut == whole || got.Status != http.StatusOK || got.Received != 9 {
			t.Errorf("whole %v: %+v", whole, got)
		}
	}
}
