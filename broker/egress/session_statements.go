package egress

import (
	"context"
	"fmt"
	"slices"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/pgsql"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// statements decides about the SQL texts of a session. Texts that may change something are in the audit
// log before the server receives them, as denied ones are. Only denied ones have their text there.
type statements struct {
	ctx    context.Context // of the session
	leases interface {
		Use(ctx context.Context, c broker.Caller, leaseID string) (broker.Usable, error)
	}
	record interface {
		Statement(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange, spends []broker.Spending) error
		UseDenied(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange)
	}
	who      broker.Caller
	leaseID  string
	approved string          // the content.Facts.Sum of the text that people approved for the lease; "" = none
	x        broker.Exchange // of every entry
	judge    func(content.Facts) *provider.UncoveredError
}

// decide is the function of the session's pgsql.Guard.
func (s *statements) decide(t pgsql.Text) *pgsql.Denial {
	f := t.Facts
	if t.Err != nil {
		return s.deny(BadContent, nil, pgsql.Denial{})
	}
	uncovered := s.judge(f)
	byApproval := uncovered != nil && f.NeedsPeople() && f.Sum() == s.approved
	changes := slices.ContainsFunc(f.Operations, func(o content.Operation) bool { return !pgsql.Reads(o) })
	switch {
	case uncovered == nil && !changes:
		return nil
	case !fitsEntry(f):
		return s.deny(BadContent, nil, pgsql.Denial{Why: "the SQL text does too much for one audit log entry: send several texts"})
	case uncovered != nil && !byApproval:
		return s.deny(NotAllowed, &f, pgsql.Denial{Why: uncovered.Why, Hint: approvalHint(t, uncovered)})
	}
	reason, why := s.send(f, byApproval)
	switch {
	case reason == "":
		return nil
	case reason == NotAllowed: // the approval has been used
		return s.deny(reason, &f, pgsql.Denial{Why: why, Hint: approvalHint(t, uncovered)})
	}
	f.Text = ""
	return s.deny(reason, &f, pgsql.Denial{Why: why})
}

// deny records a denied text, without its facts if they are nil.
func (s *statements) deny(reason stricturl.Reason, f *content.Facts, d pgsql.Denial) *pgsql.Denial {
	x := s.x
	x.Content, x.Reason = f, string(reason)
	s.record.UseDenied(context.WithoutCancel(s.ctx), s.who, s.leaseID, x)
	return &d
}

// send records that a text is about to be sent, or returns why it must not be. byApproval: the
// scopes of the lease deny the text, and its approval allows it. The text then uses the approval up.
func (s *statements) send(f content.Facts, byApproval bool) (reason stricturl.Reason, why string) {
	use, err := s.leases.Use(s.ctx, s.who, s.leaseID) // counts as a use, like a request
	if err != nil {
		return reasonOf(err), "the credential has ended, or the task sends too many requests; wait, then try again"
	}
	var spends []broker.Spending
	if byApproval {
		if spends, err = use.Spends(s.who.Root(), &f, "STATEMENT"); err == nil {
			err = use.Afford(spends)
		}
		if err != nil { // only an approval that has been used
			return NotAllowed, err.Error()
		}
	}
	x := s.x
	f.Text = ""
	x.Content = &f
	switch err := s.record.Statement(s.ctx, s.who, s.leaseID, x, spends); {
	case err == nil:
		return "", ""
	case byApproval && broker.AsError(err).Kind == broker.Denied:
		return NotAllowed, "another session has used the approval at the same moment"
	}
	return NoRecord, "it cannot be written to the audit log; try again later"
}

// approvalHint returns how to have people approve exactly a denied text, or why they cannot.
func approvalHint(t pgsql.Text, e *provider.UncoveredError) string {
	switch {
	case e.Needed.Empty():
		return "No scope of this database allows it, even with an approval."
	case !t.Facts.NeedsPeople():
		return "People cannot approve this text: " + t.Unapprovable + "."
	}
	return fmt.Sprintf("People can approve exactly this text, for one use: ebb token --scope '%s' --content %s --wait --reason 'why it is needed' (or the tool request_credential of ebb mcp). Then log in with the placeholder that it prints as the password (PGPASSWORD), and send the text unchanged, as a simple query.", e.Needed, broker.ContentID(t.Facts))
}
