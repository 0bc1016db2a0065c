package redisstore

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// metrics of one Store. Without a Registerer they are not exported.
type metrics struct {
	errors, lost, misses prometheus.Counter

	registerer prometheus.Registerer
	registered []prometheus.Collector
}

func newMetrics(r prometheus.Registerer, client redis.UniversalClient) (metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "ebb", Subsystem: "redis", Name: name, Help: help})
	}
	m := metrics{
		errors:     counter("errors_total", "Calls that Redis did not answer or refused."),
		lost:       counter("losses_total", "Times this process noticed that Redis lost data."),
		misses:     counter("task_cache_misses_total", "Tasks that were not in the cache and were read completely."),
		registerer: r,
	}
	if r == nil {
		return m, nil
	}
	pool := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "ebb", Subsystem: "redis", Name: "connections", Help: "Open connections to Redis.",
	}, func() float64 { return float64(client.PoolStats().TotalConns) })
	for _, c := range []prometheus.Collector{m.errors, m.lost, m.misses, pool} {
		if err := r.Register(c); err != nil {
			m.unregister()
			return m, fmt.Errorf("redis: metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return m, nil
}

func (m metrics) unregister() {
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
}
