package load

import (
	"slices"
	"time"
)

// Result holds the measurements of one run.
type Result struct {
	Op      string        `json:"op"`
	Clients int           `json:"clients"`
	Ops     int           `json:"ops"`
	Errors  int           `json:"errors"`
	First   string        `json:"first_error,omitempty"`
	Sent    int           `json:"-"` // requests, including the warm-up
	Took    time.Duration `json:"took_ns"`
	Rate    float64       `json:"per_second"` // valid responses per second
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
	// ClientCPU is the generator's processor time for one request, in user and
	// kernel mode. On one machine the server could not use it.
	ClientCPU time.Duration `json:"client_cpu_ns"`
}

// Summary computes a Result from latencies, which it sorts.
func Summary(op string, clients int, took time.Duration, latencies []time.Duration) Result {
	slices.Sort(latencies)
	r := Result{Op: op, Clients: clients, Ops: len(latencies), Took: took, P50: Percentile(latencies, 50), P99: Percentile(latencies, 99), Max: Percentile(latencies, 100)}
	if took > 0 {
		r.Rate = float64(len(latencies)) / took.Seconds()
	}
	return r
}

// Percentile returns the nearest-rank percentile of sorted latencies, 0 if
// there are none.
func Percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[min(max(rank, 1), len(sorted))-1]
}
