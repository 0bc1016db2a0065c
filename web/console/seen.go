package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/web/console/passkey"
)

type seenPage struct {
	Shown shown
	Vote  broker.Vote
	Said  string
	Hash  string // in the record of the vote
	Proof string // whether a passkey signed it: checked now, by what the record says
	Holds bool   // it did
	Same  bool   // this version of the console draws pages as that one did
	// Earlier is the path of the answer that this one took the place of; "" = there was none.
	Earlier string
}

// seen draws what somebody was shown who decided a request, as it was then.
func (s *Console) seen(c echo.Context, v *visit) error {
	r, vote, err := s.b.Seen(c.Request().Context(), v.Principal, c.Param("id"), c.Param("voter"))
	if err != nil {
		return err
	}
	earlier := ""
	if i := slices.IndexFunc(r.Replaced, vote.SamePerson); i >= 0 {
		if c.QueryParam("answer") == "earlier" {
			vote = r.Replaced[i]
		} else {
			earlier = "/requests/" + r.ID + "/seen/" + url.PathEscape(vote.By) + "?answer=earlier"
		}
	}
	page := seenPage{Earlier: earlier, Vote: vote, Hash: broker.SeenHash(vote.Seen), Said: "denied: " + string(vote.Code)}
	if vote.Approve {
		page.Said = "approved " + vote.Scopes.String() + " for " + span(vote.TTL.Duration())
		if vote.BreakGlass != "" {
			page.Said += ", alone, under break-glass"
		}
	}
	if vote.Seen == "" {
		return broker.E(broker.NotFound, "It was decided by the API or the command line, where ebb does not see what a person looks at.", nil)
	}
	if err := json.Unmarshal([]byte(vote.Seen), &page.Shown); err != nil {
		return broker.E(broker.Internal, "What was kept cannot be read.", err)
	}
	page.Same = page.Shown.Version == s.version
	if page.Proof, page.Holds, err = s.signed(c, vote); err != nil {
		return err
	}
	return s.draw(c, http.StatusOK, v, "seen", frame{Title: "What " + vote.By + " saw", Nav: "/queue"}, page)
}

// signed says what is true now of what was kept of an answer, and of the signature in it.
func (s *Console) signed(c echo.Context, vote broker.Vote) (says string, holds bool, err error) {
	return s.checked(func() (*audit.Signature, error) { return s.b.Signature(c.Request().Context(), vote) }, "for this answer to this request on these facts")
}

// checked says what is true now of a signature that the record knows of. what: of what it is.
func (s *Console) checked(read func() (*audit.Signature, error), what string) (says string, holds bool, err error) {
	sig, err := read()
	e := broker.AsError(err)
	switch {
	case e != nil && e.Kind == broker.Conflict:
		return e.Public, false, nil
	case err != nil:
		return "", false, err
	case sig == nil:
		return "No passkey signed this answer: the session alone vouches for it.", true, nil
	}
	if err := passkey.Check(*sig); err != nil {
		return "The signature that was kept does not hold: " + err.Error() + ".", false, nil
	}
	by := "passkey " + shortKey(sig.Passkey)
	if sig.KeyHash == "" {
		return "The signature holds, checked now: by " + by + ". The record does not say whose that is.", false, nil
	}
	return "The signature holds, checked now: by " + by + " of " + sig.By + ", registered " + sig.Registered.UTC().Format("2006-01-02 15:04 UTC") + ", " + what + ".", true, nil
}

// shortKey is the id of a passkey as far as people compare it.
func shortKey(id string) string {
	if len(id) > 16 {
		return id[:16] + "…"
	}
	return id
}
