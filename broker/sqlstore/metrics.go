package sqlstore

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the committer's. No label comes from input.
type metrics struct {
	units    prometheus.Counter
	failures prometheus.Counter
	splits   prometheus.Counter
	sizes    prometheus.Histogram
	seconds  prometheus.Histogram
	waiting  prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		units:    prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_database_units_total", Help: "Units of the committer that got an outcome, including refused and failed ones."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_database_failures_total", Help: "Units that failed because the database failed, or whose outcome is unknown."}),
		splits:   prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_database_splits_total", Help: "Batches that were rolled back and run unit by unit."}),
		sizes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ebb_database_batch_units", Help: "Units that shared one commit.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ebb_database_batch_seconds", Help: "Time from the begin to the commit of a batch.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12)}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ebb_database_queue_units", Help: "Units that wait for the next batch."}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.units, m.failures, m.splits, m.sizes, m.seconds, m.waiting} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) batch(n int, took time.Duration, waiting int) {
	m.units.Add(float64(n))
	m.sizes.Observe(float64(n))
	m.seconds.Observe(took.Seconds())
	m.waiting.Set(float64(waiting))
}
