package notifier

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics use the channel names from the operator's configuration as labels.
type metrics struct {
	messages *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
	oldest   *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ebb_notifications_total", Help: "Attempts at messages to people by channel and outcome: sent, retried, put_off, refused, given_up, gone, over (no longer current).",
		}, []string{"channel", "outcome"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ebb_notifications_waiting", Help: "Messages that are due and not sent."}, []string{"channel"}),
		oldest:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ebb_notifications_oldest_seconds", Help: "For how long the oldest message has been due; 0 without one."}, []string{"channel"}),
	}
	if r != nil {
		r.MustRegister(m.messages, m.waiting, m.oldest)
	}
	return m
}

// count sets the metrics of the queue.
func (n *Notifier) count(ctx context.Context) error {
	now := n.cfg.Now()
	all, err := n.cfg.Outbox.Backlogs(ctx, now)
	if err != nil {
		return err
	}
	for name := range n.channels {
		n.m.waiting.WithLabelValues(name).Set(0)
		n.m.oldest.WithLabelValues(name).Set(0)
	}
	for _, b := range all {
		if n.channels[b.Channel] != nil {
			n.m.waiting.WithLabelValues(b.Channel).Set(float64(b.Waiting))
			n.m.oldest.WithLabelValues(b.Channel).Set(now.Sub(b.Oldest).Seconds())
		}
	}
	return nil
}
