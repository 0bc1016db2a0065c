package main

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/notifier"
	"github.com/ebb-broker/ebb/broker/notify"
	channels "github.com/ebb-broker/ebb/broker/notify/all"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/console"
)

// openChannels creates the configured channels and returns all problems at
// once. It opens no connection.
func openChannels(c config.Notify, env channels.Env) ([]notify.Channel, error) {
	var out []notify.Channel
	env.Look = os.LookupEnv
	var ps config.Problems
	for _, ch := range c.Channels {
		if ch.Name == "" || ch.Kind == "" {
			continue // Load has reported it
		}
		m, err := channels.New(ch.Kind, ch.Config, env)
		if err != nil {
			ps = append(ps, config.Problem{Key: "notify.channels, " + ch.Name, Wrong: err.Error(), Remedy: "correct its kind or config; kinds are " + strings.Join(channels.Kinds(), ", ")})
			continue
		}
		m.Name = ch.Name
		out = append(out, m)
	}
	if len(ps) > 0 {
		return nil, ps
	}
	return out, nil
}

// openNotifier sets n.notifier, n.tellsPeople and n.push. Without a configured channel it does
// nothing.
func (n *node) openNotifier(s settings, metrics prometheus.Registerer) error {
	if len(s.Notify.Channels) == 0 {
		return nil
	}
	made, err := openChannels(s.Notify, channels.Env{Derive: n.dir.Ring().Derive, Pushes: n.store})
	if err != nil {
		return err
	}
	for _, c := range made {
		n.tellsPeople = n.tellsPeople || c.People
		if push, is := c.Sender.(console.Push); is {
			n.push = push
		}
	}
	var routes []notifier.Route
	for _, r := range s.Notify.Routes {
		route := notifier.Route{Groups: r.Groups, Providers: r.Providers, MinRisk: risk.Level(r.MinRisk), Channels: r.Channels, Escalate: r.Escalate, EscalateGroups: r.EscalateGroups}
		for _, e := range r.Events {
			route.Events = append(route.Events, notify.Event(e))
		}
		routes = append(routes, route)
	}
	n.notifier, err = notifier.New(notifier.Config{
		Outbox: n.store, Tasks: n.store, ApprovalStore: n.store, People: n.store, Rights: n.rights(s), Base: n.pages, Channels: made, Routes: routes, Digest: s.Notify.Digest, Most: s.Notify.AtOnce,
		Now: s.Now, Logger: s.Log, Registerer: metrics,
	})
	return err
}

// rights returns the current rights of people who have signed in to the console.
func (n *node) rights(s settings) func(people.Reach) broker.Principal {
	roles := s.Console.Roles.Groups()
	return func(r people.Reach) broker.Principal {
		if p, known := n.broker.Principal(r.Person); known {
			return p
		}
		return roles.Assign(broker.Principal{ID: r.Person, Groups: r.Groups, Also: r.Also})
	}
}

// channelLine is a channel in the output of `ebb notify list`.
type channelLine struct {
	Name   string   `json:"name"`
	Kind   string   `json:"kind"`
	Where  string   `json:"where"`
	People bool     `json:"people"` // it sends to addresses of people
	Routes []string `json:"routes"`
}

var channelColumns = []out.Column[channelLine]{
	{Name: "name", Cell: func(l channelLine) string { return l.Name }},
	{Name: "kind", Cell: func(l channelLine) string { return l.Kind }},
	{Name: "where", Cell: func(l channelLine) string { return l.Where }},
	{Name: "people", Cell: func(l channelLine) string { return map[bool]string{true: "yes"}[l.People] }},
	{Name: "routes", Cell: func(l channelLine) string { return strings.Join(l.Routes, "; ") }, Form: out.Prose},
}

func newNotify(c *cli) *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the configured channels and their routes", Args: cobra.NoArgs}
	list.RunE = c.do(func(*cobra.Command, []string) error {
		cfg, err := c.checkConfig()
		if err != nil {
			return err
		}
		made, err := openChannels(cfg.Notify, channels.Env{})
		if err != nil {
			return err
		}
		var lines []channelLine
		for i, ch := range made {
			lines = append(lines, channelLine{ch.Name, cfg.Notify.Channels[i].Kind, ch.Sender.Where(), ch.People || ch.Push, routesOf(cfg.Notify, ch.Name)})
		}
		return out.List(c.stdout, c.format, channelColumns, lines)
	})
	var to string
	test := &cobra.Command{
		Use: "test CHANNEL", Short: "Send a test message through a channel, and print the response", Args: cobra.ExactArgs(1),
		Long: `Send a test message through a configured channel, from this machine, and print the
response. The command needs no running ebb and does not use the database.`,
	}
	test.Flags().StringVar(&to, "to", "", "address of a person, for a channel that sends to people")
	test.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		cfg, err := c.checkConfig()
		if err != nil {
			return err
		}
		made, err := openChannels(cfg.Notify, channels.Env{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(made, func(ch notify.Channel) bool { return ch.Name == args[0] })
		switch {
		case i < 0:
			return usage("no channel is named "+out.Line(args[0]), "list the channels with `ebb notify list`")
		case made[i].Push:
			return usage(out.Line(args[0])+" sends only to browsers that people have subscribed, and `ebb notify test` cannot send to them", "subscribe a browser under Settings in the console, then wait for a notification of a request")
		case to != "" && !made[i].People, to == "" && !made[i].Place:
			return usage("--to is required for a channel with people: true, and allowed only there", "add or remove --to")
		}
		id := make([]byte, 16)
		_, _ = rand.Read(id)
		m := notify.TestMessage("msg_"+hex.EncodeToString(id), cmp.Or(cfg.PublicURL, defaultURL), time.Now())
		m.To = to
		said, err := made[i].Sender.Send(cmd.Context(), m)
		if err != nil {
			return fail("the channel did not accept the message: "+out.Line(err.Error()), "check the channel's config, and whether "+made[i].Sender.Where()+" can be reached from here")
		}
		c.printf("sent to %s: %s\n", made[i].Sender.Where(), out.Line(said))
		return nil
	})
	return c.group("notify", "List notification channels, and test them", c.output(list), test)
}

// routesOf describes the routes that lead to a channel.
func routesOf(c config.Notify, name string) []string {
	lines := []string{}
	for _, r := range c.Routes {
		var parts []string
		for _, p := range []struct {
			word string
			list []string
		}{{"events", r.Events}, {"groups", r.Groups}, {"providers", r.Providers}} {
			if len(p.list) > 0 {
				parts = append(parts, p.word+" "+strings.Join(p.list, ","))
			}
		}
		if r.MinRisk != "" {
			parts = append(parts, "risk "+r.MinRisk)
		}
		what := cmp.Or(strings.Join(parts, " "), "everything")
		if slices.Contains(r.Channels, name) {
			lines = append(lines, what)
		}
		if slices.Contains(r.Escalate, name) {
			lines = append(lines, "at half time: "+what)
		}
	}
	return lines
}
