package history

import (
	"crypto/rand"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/people"
)

// emergency: a request needs two people of finance, and one is asleep. Tom
// begins an emergency period (break glass) for one request, and Eve reviews it.
func (s *stage) emergency() error {
	s.at(ago(2, 20))
	a, err := s.begin(task("return what was charged twice", "refund", "eva.berg", "billing:customers/**:*"))
	if err != nil {
		return err
	}
	r, err := a.ask("billing:customers/7001:refund", "billing-cli", "The card will be charged again at midnight unless this is returned.", 5*time.Minute)
	if err != nil {
		return err
	}
	s.later(6 * time.Minute)
	tom, _ := s.Broker.Principal(Tom)
	plan, token, err := s.Broker.PlanBreakGlass(tom, "INC-2041", "Sam is asleep, and the next charge is at midnight: it cannot wait for a second person.")
	if err != nil {
		return err
	}
	s.later(25 * time.Second) // in which he proves his identity
	now := s.Clock.Now()
	session := people.Session{ID: rand.Text(), Act: rand.Text(), Person: tom.ID, Name: tom.ID, Purpose: plan.ID, AuthAt: now, GroupsAt: now, CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(8 * time.Hour)}
	if err := s.Sessions.AddSession(s.ctx, session); err != nil {
		return err
	}
	g, err := s.Broker.BeginBreakGlass(s.ctx, tom, token, approval.BreakGlassProof{AuthAt: now, For: plan.ID, Session: session.ID, SessionBegan: now, SessionEnds: session.ExpiresAt})
	if err != nil {
		return err
	}
	s.later(20 * time.Second)
	v := broker.Verdict{Approve: true, Digest: r.Digest, Target: target(r), Present: true, Presence: broker.Presence{By: "oidc", ProvedAt: now.UTC()}, BreakGlass: g.ID}
	if _, err := s.Broker.Decide(s.ctx, tom, r.ID, v); err != nil {
		return err
	}
	if err := a.take(); err != nil {
		return err
	}
	s.later(4 * time.Minute)
	if _, err := s.Broker.EndBreakGlass(s.ctx, tom, g.ID); err != nil {
		return err
	}
	if _, err := s.Sessions.EndSessions(s.ctx, tom.ID, session.ID); err != nil {
		return err
	}
	if err := a.complete(); err != nil {
		return err
	}
	s.later(50 * time.Minute)
	eve, _ := s.Broker.Principal(Auditor)
	_, err = s.Broker.ReviewBreakGlass(s.ctx, eve, g.ID, "One refund of 41.90 EUR, as the ticket says. Finance gets a third person on call.")
	return err
}
