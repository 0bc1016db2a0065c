package web

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have labels from closed sets: route templates, methods, status classes.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	labels := []string{"route", "method", "status"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ebb_http_requests_total", Help: "HTTP requests by route, method and status class."}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ebb_http_request_duration_seconds", Help: "Time to answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30},
		}, labels),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ebb_http_in_flight", Help: "Requests being answered."}),
	}
	if r != nil {
		r.MustRegister(m.requests, m.duration, m.inFlight)
	}
	return m
}

func (m *metrics) observe(route, method string, status int, took time.Duration) {
	class := "other"
	if status >= 100 && status < 600 {
		class = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}[status/100-1]
	}
	m.requests.WithLabelValues(route, method, class).Inc()
	m.duration.WithLabelValues(route, method, class).Observe(took.Seconds())
}
