//go:build unix

package console_test

import (
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
)

// BenchmarkPages draws every page of an ebb with 100,000 credentials and 10,000
// waiting requests. The limit is 20 ms at the 95th percentile. Processor time
// is measured too, because other programs do not change it.
func BenchmarkPages(b *testing.B) {
	approver := []broker.Role{broker.RoleApprover}
	h := full(b, broker.Principal{ID: "stranger", Roles: approver, Groups: []string{"others"}},
		broker.Principal{ID: "limited", Roles: approver, Groups: []string{"approvers"}, Bounds: []scopes.Set{scopes.MustParseSet("orders:eu/2:write")}})
	now := h.Clock.Now()
	r := h.wait(10_000, func(i int, r *broker.Request) {
		r.Rank, r.ExpiresAt = 1+i%3, now.Add(time.Duration(i)*time.Second+time.Hour)
	})
	ann, aud := h.as(brokertest.Approver), h.as(brokertest.Auditor)
	e := h.newest(b)
	h.Broker.KeepFigures(b.Context()) // as every 5 minutes
	task := "/tasks/tsk_" + "00000000000000000000000000000007"
	for _, p := range []struct {
		name string
		who  *browser
		path string
	}{
		{"queue", ann, "/queue"}, {"queue-high", ann, "/queue?risk=high"}, {"queue-none", ann, "/queue?q=nowhere"}, {"queue-text", ann, "/queue?q=orders"}, {"queue-all", aud, "/queue"},
		{"queue-stranger", h.as("stranger"), "/queue"}, {"queue-limited", h.as("limited"), "/queue"}, {"request", ann, "/requests/" + r.ID}, {"requests", aud, "/requests"}, {"requests-by", aud, "/requests?by=ann"},
		{"credentials", aud, "/credentials"}, {"tail", aud, "/credentials/tail"}, {"task", aud, task}, {"tasks", aud, "/tasks"}, {"tasks-over", aud, "/tasks?state=closed"},
		{"audit", aud, "/audit"}, {"entry", aud, e}, {"chains", aud, "/audit/chains"}, {"insights", aud, "/insights"}, {"insights-30d", aud, "/insights?window=30d"}, {"settings", ann, "/settings"},
	} {
		b.Run(p.name, func(b *testing.B) {
			var took []time.Duration
			used := processor(b)
			for b.Loop() {
				start := time.Now()
				if a := p.who.get(p.path); a.StatusCode != http.StatusOK {
					b.Fatal(a.StatusCode, a.body)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
			b.ReportMetric(float64((processor(b)-used).Microseconds())/1000/float64(len(took)), "cpu-ms")
		})
	}
}

// processor returns the processor time of this process.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// newest returns the page of the newest entry.
func (h *fixture) newest(b *testing.B) string {
	b.Helper()
	key, err := h.Broker.Newest(b.Context())
	if err != nil || key == "" {
		b.Fatal(key, err)
	}
	return "/audit/" + key
}
