package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// BenchmarkMissedHeartbeat measures how late a task is closed after its runner stopped: from the
// time at which the heartbeat was due, with 200 tasks that stop at random times within two seconds.
func BenchmarkMissedHeartbeat(b *testing.B) {
	for b.Loop() {
		e := brokertest.New(b, brokertest.Config{RealTime: true, Run: true})
		due := map[string]time.Time{}
		spec := brokertest.Spec()
		spec.Heartbeat, spec.Ticket = 1, false
		for range 200 {
			task, _, err := e.Broker.OpenTask(b.Context(), e.Principals[brokertest.Runner], spec)
			if err != nil {
				b.Fatal(err)
			}
			due[task.ID] = task.OpenedAt.Add(time.Second)
			time.Sleep(10 * time.Millisecond)
		}
		var late []time.Duration
		for cursor := ""; len(late) < len(due); {
			evs, next, err := e.Config.LiveStore.Follow(b.Context(), cursor, 1000, time.Second)
			if err != nil {
				b.Fatal(err)
			}
			cursor = next
			for _, ev := range evs {
				if at, ours := due[ev.TaskID]; ours {
					late = append(late, ev.At.Sub(at))
				}
			}
		}
		slices.Sort(late)
		b.ReportMetric(late[len(late)/2].Seconds(), "p50-s")
		b.ReportMetric(late[len(late)*99/100].Seconds(), "p99-s")
	}
}
