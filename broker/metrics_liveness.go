package broker

import "github.com/prometheus/client_golang/prometheus"

// newJudging makes the metrics of judgements that cost others something.
func (m *metrics) newJudging() {
	m.judging = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ebb_judgements", Help: "Judgements under way that cost others something, by attestor."}, []string{"attestor"})
	m.turnedAway = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ebb_judgements_turned_away_total", Help: "Evidence that was not judged because of what that costs others, by attestor and why: its task, its caller, the rate or the places of all.",
	}, []string{"attestor", "why"})
}

// newLiveness makes the metrics of sandboxes that are watched. How a sandbox died
// is a fixed word of its attestor.
func (m *metrics) newLiveness() {
	m.watched = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ebb_sandboxes_watched", Help: "Sandboxes whose end this process would see, by attestor."}, []string{"attestor"})
	m.unwatched = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ebb_watch_failures_total", Help: "Times a sandbox could not be watched, by attestor; each is tried again."}, []string{"attestor"})
	m.deaths = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ebb_sandbox_deaths_total", Help: "Sandboxes that were seen to end, by attestor and how."}, []string{"attestor", "how"})
	m.deathDelay = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ebb_sandbox_death_delay_seconds", Help: "From a sandbox's end to this process noticing it, by attestor, as far as its attestor can tell.",
		Buckets: []float64{.01, .1, .5, 1, 2, 5, 10, 30, 120},
	}, []string{"attestor"})
}
