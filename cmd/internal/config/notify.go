package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/risk"
)

// Notify configures notifications.
type Notify struct {
	Channels []NotifyChannel
	Routes   []NotifyRoute
	Digest   time.Duration
	AtOnce   int
}

// NotifyChannel is one channel. Config is in the format of its kind.
type NotifyChannel struct {
	Name   string
	Kind   string
	Config json.RawMessage
}

// NotifyRoute selects the channels of events.
type NotifyRoute struct {
	Events         []string
	Groups         []string
	Providers      []string
	MinRisk        string
	Channels       []string
	Escalate       []string
	EscalateGroups []string
}

func (c *Config) readChannels(r *reader) listOf {
	return func(path string, n ast.Node) {
		c.Notify.Channels = nil
		r.each(path, n, func(at string, item ast.Node) {
			var ch NotifyChannel
			r.mapping(at, item, []field{{"name", &ch.Name}, {"kind", &ch.Kind}, {"config", &ch.Config}})
			c.Notify.Channels = append(c.Notify.Channels, ch)
		})
	}
}

func (c *Config) readRoutes(r *reader) listOf {
	return func(path string, n ast.Node) {
		c.Notify.Routes = nil
		r.each(path, n, func(at string, item ast.Node) {
			var o NotifyRoute
			r.mapping(at, item, []field{
				{"events", &o.Events}, {"groups", &o.Groups}, {"providers", &o.Providers}, {"min_risk", &o.MinRisk},
				{"channels", &o.Channels}, {"escalate", &o.Escalate}, {"escalate_groups", &o.EscalateGroups},
			})
			c.Notify.Routes = append(c.Notify.Routes, o)
		})
	}
}

func (c *Config) checkNotify(src map[string]string, ps *Problems) {
	seen := map[string]bool{}
	for i, ch := range c.Notify.Channels {
		checkName(fmt.Sprintf("notify.channels[%d]", i), ch.Name, ch.Kind, seen, src, ps)
	}
	for i, r := range c.Notify.Routes {
		at := fmt.Sprintf("notify.routes[%d]", i)
		if len(r.Channels)+len(r.Escalate) == 0 {
			ps.add(at, src[at], "it has neither channels nor escalate", "name channels, escalate, or both")
		}
		for _, name := range slices.Concat(r.Channels, r.Escalate) {
			if !seen[name] {
				ps.add(at, src[at], fmt.Sprintf("no channel is named %q", name), "name one of notify.channels")
			}
		}
		for _, e := range r.Events {
			if !notify.Event(e).Known() {
				ps.add(at+".events", src[at], fmt.Sprintf("there is no event %q", e), "write those of docs/reference/notifications.md, such as request.waiting")
			}
		}
		if r.MinRisk != "" && risk.Level(r.MinRisk).Rank() == 0 {
			ps.add(at+".min_risk", src[at], fmt.Sprintf("%q is not a risk level", r.MinRisk), "write low, medium or high")
		}
		for _, name := range r.Providers {
			if len(c.Providers) > 0 && !slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.Name == name }) {
				ps.add(at+".providers", src[at], fmt.Sprintf("no provider is named %q", name), "name one of providers")
			}
		}
		if len(r.EscalateGroups) > 0 && len(r.Escalate) == 0 {
			ps.add(at+".escalate_groups", src[at], "it has no effect without escalate", "name a channel for these groups in escalate")
		}
	}
	if len(c.Notify.Channels) > 0 && len(c.Notify.Routes) == 0 {
		ps.add("notify.routes", src["notify.channels"], "no route names a channel", "add a route such as {channels: ["+c.Notify.Channels[0].Name+"]}")
	}
	if d := c.Notify.Digest; d < time.Minute || d > 24*time.Hour {
		ps.add("notify.digest", src["notify.digest"], fmt.Sprintf("%s is out of range", d), "choose from 1m to 24h")
	}
	if n := c.Notify.AtOnce; n < 1 || n > 1000 {
		ps.add("notify.at_once", src["notify.at_once"], fmt.Sprintf("%d is out of range", n), "choose from 1 to 1000")
	}
}
