package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

type seenPage struct {
	Shown shown
	Vote  broker.Vote
	Said  string
	Hash  string // SHA-256 in the audit entry of the vote
	Proof string // result of verifying the passkey signature against the audit log now
	Holds bool   // the signature is valid
	Same  bool   // the page was drawn by this version of the templates
	// Earlier is the path of the answer that this one replaced, or "".
	Earlier string
}

// seen shows a request page as an approver saw it when deciding.
func (rp *requestPages) seen(c echo.Context, v *visit) error {
	r, vote, err := rp.b.Seen(c.Request().Context(), v.Principal, c.Param("id"), c.Param("voter"))
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
		return broker.E(broker.NotFound, "No page was stored: the decision was made with the API or the command line, and ebb stores pages of the console only.", nil)
	}
	if err := json.Unmarshal([]byte(vote.Seen), &page.Shown); err != nil {
		return broker.E(broker.Internal, "The stored page cannot be parsed.", err)
	}
	page.Same = page.Shown.Version == rp.version
	if page.Proof, page.Holds, err = rp.signed(c, vote); err != nil {
		return err
	}
	return rp.pages.draw(c, http.StatusOK, v, "seen", frame{Title: "What " + vote.By + " saw", Nav: "/queue"}, page)
}

// signed verifies the stored signature of an answer.
func (rp *requestPages) signed(c echo.Context, vote broker.Vote) (says string, holds bool, err error) {
	return rp.checked(func() (*audit.Signature, error) { return rp.b.Signature(c.Request().Context(), vote) }, "for this answer to this request on these facts")
}

// checked verifies a signature against the audit log and describes the result.
// what describes the signed data.
func (rp *requestPages) checked(read func() (*audit.Signature, error), what string) (says string, holds bool, err error) {
	sig, err := read()
	e := broker.AsError(err)
	switch {
	case e != nil && e.Kind == broker.Conflict:
		return e.Public, false, nil
	case err != nil:
		return "", false, err
	case sig == nil:
		return "No passkey signed this answer. Its only proof is the session in which it was given.", true, nil
	}
	if err := passkey.Check(*sig); err != nil {
		return "The stored signature is not valid: " + err.Error() + ".", false, nil
	}
	by := "passkey " + shortKey(sig.Passkey)
	if sig.KeyHash == "" {
		return "The signature is valid, checked now: by " + by + ". The audit log does not tell whose passkey it is.", false, nil
	}
	return "The signature is valid, checked now: by " + by + " of " + sig.By + ", registered " + sig.Registered.UTC().Format("2006-01-02 15:04 UTC") + ", " + what + ".", true, nil
}

// shortKey shortens the id of a passkey to 16 characters.
func shortKey(id string) string {
	if len(id) > 16 {
		return id[:16] + "…"
	}
	return id
}
