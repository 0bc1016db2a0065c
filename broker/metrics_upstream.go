package broker

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ebb/broker/provider"
)

func (m *metrics) newUpstream() {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"provider"})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"provider"}, labels...))
	}
	seconds := func(name, help string, from float64, n int) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(from, 4, n)}, []string{"provider"})
	}
	m.owing = gauge("ebb_owed_revocations", "Credentials of third parties that are refused here and not yet known to be dead there.")
	m.owingAge = gauge("ebb_owed_oldest_seconds", "Since when the oldest of them is owed.")
	m.orphans = counter("ebb_orphans_total", "Credentials found at a provider that no record knows as alive, and taken back.")
	m.orphansLeft = gauge("ebb_orphans_left", "Orphans that the last search found and that are still there.")
	m.sweeps = counter("ebb_sweeps_total", "Searches for orphans.", "outcome")
	m.sweepTook = gauge("ebb_sweep_seconds", "What the last search for orphans took.")
	m.sweptAt = gauge("ebb_sweep_success_timestamp_seconds", "When the last search began that went through the whole list and left no orphan.")
	m.revocations = counter("ebb_revocations_total", "Ends of third-party credentials: how each is known to be dead, and attempts that failed.", "outcome")
	m.deadAfter = seconds("ebb_revocation_seconds", "From refused here to dead at the provider.", 0.005, 10)
	m.mints = counter("ebb_upstream_mints_total", "Mints at a provider.", "outcome")
	m.mintSeconds = seconds("ebb_upstream_mint_seconds", "What a provider took to answer a mint.", 0.001, 9)
	m.breakers = gauge("ebb_provider_breaker", "2 closed, 1 half open, 0 open: the provider does not answer and is asked by one call at a time.")
}

// upstreamMetrics are those of one provider.
type upstreamMetrics struct {
	m    *metrics
	name string
}

func (m *metrics) upstream(name string) *upstreamMetrics {
	u := &upstreamMetrics{m, name}
	m.orphans.WithLabelValues(name)
	m.orphansLeft.WithLabelValues(name)
	m.owing.WithLabelValues(name)
	m.owingAge.WithLabelValues(name)
	return u
}

func (u *upstreamMetrics) mint(err error, took time.Duration) {
	_, busy := errors.AsType[*provider.BusyError](err)
	outcome := "failed"
	switch {
	case err == nil:
		outcome = "minted"
	case busy:
		outcome = "busy"
	case errors.Is(err, provider.ErrRefused):
		outcome = "refused"
	}
	u.m.mints.WithLabelValues(u.name, outcome).Inc()
	u.m.mintSeconds.WithLabelValues(u.name).Observe(took.Seconds())
}

// failed counts an attempt that must be repeated.
func (u *upstreamMetrics) failed(err error) {
	_, busy := errors.AsType[*provider.BusyError](err)
	outcome := "failed"
	switch {
	case busy:
		outcome = "busy"
	case errors.Is(err, errAlive), errors.Is(err, errOutlived):
		outcome = "still_alive"
	case errors.Is(err, errSealed):
		outcome = "sealed"
	}
	u.m.revocations.WithLabelValues(u.name, outcome).Inc()
}

func (u *upstreamMetrics) orphan() { u.m.orphans.WithLabelValues(u.name).Inc() }

// swept counts a search for orphans.
func (u *upstreamMetrics) swept(err error, left int, began time.Time, took time.Duration) {
	outcome := "done"
	switch {
	case err == nil:
		u.m.sweptAt.WithLabelValues(u.name).Set(float64(began.Unix()))
	case errors.Is(err, errNotToday):
		outcome = "postponed"
	default:
		outcome = "failed"
	}
	u.m.sweeps.WithLabelValues(u.name, outcome).Inc()
	if outcome == "postponed" {
		return
	}
	u.m.sweepTook.WithLabelValues(u.name).Set(took.Seconds())
	u.m.orphansLeft.WithLabelValues(u.name).Set(float64(left))
}

// ended counts an end that is settled; dead is zero when nobody knows of when it is.
func (u *upstreamMetrics) ended(state LeaseState, p Proof, since, dead time.Time) {
	outcome := string(p)
	if state == LeaseUnconfirmed {
		outcome = string(LeaseUnconfirmed)
	}
	u.m.revocations.WithLabelValues(u.name, outcome).Inc()
	if !dead.IsZero() {
		u.m.deadAfter.WithLabelValues(u.name).Observe(max(dead.Sub(since), 0).Seconds())
	}
}
