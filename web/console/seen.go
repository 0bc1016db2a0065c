package console

import (
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"ebb/broker"
)

type seenPage struct {
	Shown shown
	Vote  broker.Vote
	Said  string
	Hash  string // in the record of the vote
	Same  bool   // this version of the console draws pages as that one did
}

// seen draws what somebody was shown who decided a request, as it was then.
func (s *Console) seen(c echo.Context, v *visit) error {
	_, vote, err := s.b.Seen(c.Request().Context(), v.Principal, c.Param("id"), c.Param("voter"))
	if err != nil {
		return err
	}
	page := seenPage{Vote: vote, Hash: broker.SeenHash(vote.Seen), Said: "denied: " + string(vote.Code)}
	if vote.Approve {
		page.Said = "approved " + vote.Scopes.String() + " for " + span(vote.TTL.Duration())
	}
	if vote.Seen == "" {
		return broker.E(broker.NotFound, "It was decided by the API or the command line, where ebb does not see what a person looks at.", nil)
	}
	if err := json.Unmarshal([]byte(vote.Seen), &page.Shown); err != nil {
		return broker.E(broker.Internal, "What was kept cannot be read.", err)
	}
	page.Same = page.Shown.Version == s.version
	return s.draw(c, http.StatusOK, v, "seen", frame{Title: "What " + vote.By + " saw", Nav: "/queue"}, page)
}
