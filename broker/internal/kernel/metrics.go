package kernel

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Metrics holds the broker's own metrics. Labels come from closed sets of this package, never
// from input.
type Metrics struct {
	Tokens      *prometheus.CounterVec
	Tasks       *prometheus.CounterVec
	Requests    *prometheus.CounterVec
	Introspect  *prometheus.CounterVec
	Rejected    *prometheus.CounterVec
	PendingEnds prometheus.Gauge
	Refills     prometheus.Counter
	Shed        prometheus.Counter
	BreakGlass  prometheus.Counter
	Unrecorded  prometheus.Counter
	clockJump   prometheus.Gauge

	// Evidence checks with a cost for others, by attestor.
	Judging    *prometheus.GaugeVec
	TurnedAway *prometheus.CounterVec

	// Watched sandboxes, by attestor.
	Watched   *prometheus.GaugeVec
	Unwatched *prometheus.CounterVec
	Exits     *prometheus.CounterVec
	ExitDelay *prometheus.HistogramVec

	// Third parties, by provider.
	RevocationBacklog *prometheus.GaugeVec
	OldestPending     *prometheus.GaugeVec
	orphans           *prometheus.CounterVec
	orphansLeft       *prometheus.GaugeVec
	sweeps            *prometheus.CounterVec
	sweepTook         *prometheus.GaugeVec
	sweptAt           *prometheus.GaugeVec
	revocations       *prometheus.CounterVec
	deadAfter         *prometheus.HistogramVec
	mints             *prometheus.CounterVec
	mintSeconds       *prometheus.HistogramVec
	Breakers          *prometheus.GaugeVec
}

func NewMetrics(r prometheus.Registerer) *Metrics {
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &Metrics{
		Tokens:      vec("ebb_token_requests_total", "Token requests by outcome.", "outcome"),
		Tasks:       vec("ebb_tasks_total", "Task events.", "event"),
		Requests:    vec("ebb_requests_total", "Requests for people by event.", "event"),
		Introspect:  vec("ebb_introspections_total", "Introspections by answer.", "answer"),
		Rejected:    vec("ebb_evidence_rejected_total", "Evidence refused, by attestor.", "attestor"),
		PendingEnds: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ebb_pending_ends", Help: "Ends of tasks and credentials that a store has not taken yet."}),
		BreakGlass:  prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_break_glass_total", Help: "Break-glass periods that began."}),
		Refills:     prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_live_store_refills_total", Help: "Refills of the live store from the database."}),
		clockJump:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "ebb_clock_jump_seconds", Help: "How far the clock jumped ahead, or back when negative, until that has settled."}),
		Shed:        prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_requests_shed_total", Help: "Mints and introspections that were refused because too many waited."}),
		Unrecorded:  prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_refusals_unrecorded_total", Help: "Refusals that were not recorded, because unknown callers or a sandbox had caused too many."}),
	}
	m.newJudging()
	m.newLiveness()
	m.newUpstream()
	if r != nil {
		r.MustRegister(m.Tokens, m.Tasks, m.Requests, m.Introspect, m.Rejected, m.PendingEnds, m.BreakGlass, m.Refills, m.Shed, m.Unrecorded, m.clockJump,
			m.Judging, m.TurnedAway, m.Watched, m.Unwatched, m.Exits, m.ExitDelay,
			m.RevocationBacklog, m.OldestPending, m.orphans, m.orphansLeft, m.sweeps, m.sweepTook, m.sweptAt, m.revocations, m.deadAfter, m.mints, m.mintSeconds, m.Breakers)
	}
	return m
}

func (m *Metrics) newUpstream() {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"provider"})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"provider"}, labels...))
	}
	seconds := func(name, help string, from float64, n int) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(from, 4, n)}, []string{"provider"})
	}
	m.RevocationBacklog = gauge("ebb_pending_revocations", "Pending revocations: credentials of third parties that are refused here and not yet known to be refused there.")
	m.OldestPending = gauge("ebb_pending_revocations_oldest_seconds", "Age of the oldest pending revocation.")
	m.orphans = counter("ebb_orphans_total", "Credentials found at a provider whose lease is missing or in a final state, and revoked.")
	m.orphansLeft = gauge("ebb_orphans_left", "Orphans that the last search found and could not revoke.")
	m.sweeps = counter("ebb_sweeps_total", "Searches for orphans.", "outcome")
	m.sweepTook = gauge("ebb_sweep_seconds", "Duration of the last search for orphans.")
	m.sweptAt = gauge("ebb_sweep_success_timestamp_seconds", "Start of the last search that read the whole list and left no orphan.")
	m.revocations = counter("ebb_revocations_total", "Revocations of third-party credentials by proof, and failed attempts.", "outcome")
	m.deadAfter = seconds("ebb_revocation_seconds", "Time from the refusal here to the refusal at the provider.", 0.005, 10)
	m.mints = counter("ebb_upstream_mints_total", "Mints at a provider.", "outcome")
	m.mintSeconds = seconds("ebb_upstream_mint_seconds", "Duration of a mint at a provider.", 0.001, 9)
	m.Breakers = gauge("ebb_provider_breaker", "State of the circuit breaker: 2 closed, 1 half open, 0 open. While it is open the provider does not answer, and single calls probe it.")
}

// UpstreamMetrics are the metrics of one provider.
type UpstreamMetrics struct {
	m    *Metrics
	name string
}

func (m *Metrics) Upstream(name string) *UpstreamMetrics {
	u := &UpstreamMetrics{m, name}
	m.orphans.WithLabelValues(name)
	m.orphansLeft.WithLabelValues(name)
	m.RevocationBacklog.WithLabelValues(name)
	m.OldestPending.WithLabelValues(name)
	return u
}

func (u *UpstreamMetrics) Mint(err error, took time.Duration) {
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

// Failed counts a failed attempt, which is repeated.
func (u *UpstreamMetrics) Failed(err error) {
	_, busy := errors.AsType[*provider.BusyError](err)
	outcome := "failed"
	switch {
	case busy:
		outcome = "busy"
	case errors.Is(err, ErrAlive), errors.Is(err, ErrOutlived):
		outcome = "still_alive"
	case errors.Is(err, ErrSealed):
		outcome = "sealed"
	}
	u.m.revocations.WithLabelValues(u.name, outcome).Inc()
}

func (u *UpstreamMetrics) Orphan() { u.m.orphans.WithLabelValues(u.name).Inc() }

// Swept counts a search for orphans.
func (u *UpstreamMetrics) Swept(err error, left int, began time.Time, took time.Duration) {
	outcome := "done"
	switch {
	case err == nil:
		u.m.sweptAt.WithLabelValues(u.name).Set(float64(began.Unix()))
	case errors.Is(err, ErrNotToday):
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

// Ended counts a settled revocation; dead is zero when its time is unknown.
func (u *UpstreamMetrics) Ended(state broker.LeaseState, p broker.Proof, since, dead time.Time) {
	outcome := string(p)
	if state == broker.LeaseUnconfirmed {
		outcome = string(broker.LeaseUnconfirmed)
	}
	u.m.revocations.WithLabelValues(u.name, outcome).Inc()
	if !dead.IsZero() {
		u.m.deadAfter.WithLabelValues(u.name).Observe(max(dead.Sub(since), 0).Seconds())
	}
}

// newJudging makes the metrics of evidence checks with a cost for others.
func (m *Metrics) newJudging() {
	m.Judging = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ebb_judgements", Help: "Costly evidence checks that are running, by attestor."}, []string{"attestor"})
	m.TurnedAway = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ebb_judgements_turned_away_total", Help: "Costly evidence checks that were refused, by attestor and by the exceeded limit: of the task, of the caller, or of all (rate, places).",
	}, []string{"attestor", "why"})
}

// newLiveness makes the metrics of watched sandboxes. The label how is a fixed word of the
// attestor.
func (m *Metrics) newLiveness() {
	m.Watched = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ebb_sandboxes_watched", Help: "Sandboxes whose exit this process would see, by attestor."}, []string{"attestor"})
	m.Unwatched = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ebb_watch_failures_total", Help: "Times a sandbox could not be watched, by attestor; each is tried again."}, []string{"attestor"})
	m.Exits = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ebb_sandbox_exits_total", Help: "Sandbox exits that were seen, by attestor and kind of exit."}, []string{"attestor", "how"})
	m.ExitDelay = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ebb_sandbox_exit_delay_seconds", Help: "Time from a sandbox's exit until this process noticed it, by attestor, if the attestor knows the time of the exit.",
		Buckets: []float64{.01, .1, .5, 1, 2, 5, 10, 30, 120},
	}, []string{"attestor"})
}
