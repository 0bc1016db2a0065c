package broker

import "github.com/prometheus/client_golang/prometheus"

// metrics are the broker's own counters. Labels come from closed sets of this
// package, never from input.
type metrics struct {
	tokens     *prometheus.CounterVec
	tasks      *prometheus.CounterVec
	requests   *prometheus.CounterVec
	introspect *prometheus.CounterVec
	rejected   *prometheus.CounterVec
	owed       prometheus.Gauge
	refills    prometheus.Counter
	shed       prometheus.Counter
	breakGlass prometheus.Counter
	unrecorded prometheus.Counter
	clockJump  prometheus.Gauge

	// Of judgements that cost others something, by attestor.
	judging    *prometheus.GaugeVec
	turnedAway *prometheus.CounterVec

	// Of sandboxes that are watched, by attestor.
	watched    *prometheus.GaugeVec
	unwatched  *prometheus.CounterVec
	deaths     *prometheus.CounterVec
	deathDelay *prometheus.HistogramVec

	// Of third parties, by provider.
	owing       *prometheus.GaugeVec
	owingAge    *prometheus.GaugeVec
	orphans     *prometheus.CounterVec
	orphansLeft *prometheus.GaugeVec
	sweeps      *prometheus.CounterVec
	sweepTook   *prometheus.GaugeVec
	sweptAt     *prometheus.GaugeVec
	revocations *prometheus.CounterVec
	deadAfter   *prometheus.HistogramVec
	mints       *prometheus.CounterVec
	mintSeconds *prometheus.HistogramVec
	breakers    *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		tokens:     vec("ebb_token_requests_total", "Token requests by outcome.", "outcome"),
		tasks:      vec("ebb_tasks_total", "Task events.", "event"),
		requests:   vec("ebb_requests_total", "Requests for people by event.", "event"),
		introspect: vec("ebb_introspections_total", "Introspections by answer.", "answer"),
		rejected:   vec("ebb_evidence_rejected_total", "Evidence refused, by attestor.", "attestor"),
		owed:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "ebb_owed_ends", Help: "Ends of tasks and credentials that a store has not taken yet."}),
		breakGlass: prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_break_glass_total", Help: "How often somebody began to approve alone."}),
		refills:    prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_ledger_refills_total", Help: "How often the ledger was refilled from the journal."}),
		clockJump:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "ebb_clock_jump_seconds", Help: "How far the clock jumped ahead, or back when negative, until that has settled."}),
		shed:       prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_requests_shed_total", Help: "Mints and introspections that were told to come again because too many waited."}),
		unrecorded: prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_refusals_unrecorded_total", Help: "Refusals beyond the bound of what is recorded: of unknown callers, and of sandboxes that ask again and again."}),
	}
	m.newJudging()
	m.newLiveness()
	m.newUpstream()
	if r != nil {
		r.MustRegister(m.tokens, m.tasks, m.requests, m.introspect, m.rejected, m.owed, m.refills, m.shed, m.unrecorded, m.clockJump,
			m.judging, m.turnedAway, m.watched, m.unwatched, m.deaths, m.deathDelay,
			m.owing, m.owingAge, m.orphans, m.orphansLeft, m.sweeps, m.sweepTook, m.sweptAt, m.revocations, m.deadAfter, m.mints, m.mintSeconds, m.breakers)
	}
	return m
}
