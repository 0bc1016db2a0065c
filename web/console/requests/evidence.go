package requests

import (
	"bytes"
	"compress/flate"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// A form contains a signed snapshot of its page. The evidence stored with a decision is therefore
// the page that the person saw, and not the page as it would be when the form arrives.

var errSealed = errors.New("the snapshot is not one that this console showed to this person")

// seal returns snapshots of pages as one signed form field.
func (ps *Pages) seal(pages any) (string, error) {
	raw, err := json.Marshal(pages)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(raw); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(b.Bytes())
	return text + "." + ps.shownMAC(text), nil
}

// unseal returns the JSON in a form field that seal made, at most n bytes of it.
func (ps *Pages) unseal(field string, n int64) ([]byte, error) {
	text, mac, found := strings.Cut(field, ".")
	if !found || !hmac.Equal([]byte(mac), []byte(ps.shownMAC(text))) {
		return nil, errSealed
	}
	packed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), n+1))
}

// openShown reads the snapshot of one page. It accepts only a snapshot of this request that was
// shown to this person.
func (ps *Pages) openShown(v *session.Visit, id, field string) (out shown, raw string, err error) {
	b, err := ps.unseal(field, approval.MaxSnapshot)
	if err != nil {
		return out, "", err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, "", err
	}
	if out.For != v.ID || out.Request != id {
		return out, "", errSealed
	}
	return out, string(b), nil
}

func (ps *Pages) shownMAC(text string) string {
	m := hmac.New(sha256.New, ps.key)
	m.Write([]byte("shown\x00" + text))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

type snapshotPage struct {
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

// snapshot shows a request page as an approver saw it when deciding.
func (ps *Pages) snapshot(c echo.Context, v *session.Visit) error {
	r, vote, err := ps.b.EvidenceSnapshot(c.Request().Context(), v.Principal, c.Param("id"), c.Param("voter"))
	if err != nil {
		return err
	}
	earlier := ""
	if i := slices.IndexFunc(r.Replaced, vote.SamePerson); i >= 0 {
		if c.QueryParam("answer") == "earlier" {
			vote = r.Replaced[i]
		} else {
			earlier = "/requests/" + r.ID + "/snapshot/" + url.PathEscape(vote.By) + "?answer=earlier"
		}
	}
	page := snapshotPage{Earlier: earlier, Vote: vote, Hash: broker.TextHash(vote.Snapshot), Said: "denied: " + string(vote.Code)}
	if vote.Approve {
		page.Said = "approved " + vote.Scopes.String() + " for " + shell.Span(vote.TTL.Duration())
		if vote.BreakGlass != "" {
			page.Said += ", alone, under break-glass"
		}
	}
	if vote.Snapshot == "" {
		return broker.E(broker.NotFound, "No page was stored: the decision was made with the API or the command line, and ebb stores pages of the console only.", nil)
	}
	if err := json.Unmarshal([]byte(vote.Snapshot), &page.Shown); err != nil {
		return broker.E(broker.Internal, "The stored page cannot be parsed.", err)
	}
	page.Same = page.Shown.Version == ps.shell.Version()
	if page.Proof, page.Holds, err = ps.signed(c, vote); err != nil {
		return err
	}
	return ps.shell.Draw(c, http.StatusOK, v, "snapshot", shell.Frame{Title: "What " + vote.By + " saw", Nav: "/queue"}, page)
}

// signed verifies the stored signature of an answer.
func (ps *Pages) signed(c echo.Context, vote broker.Vote) (says string, holds bool, err error) {
	return proof.Check(func() (*audit.Signature, error) { return ps.b.Signature(c.Request().Context(), vote) }, "for this answer to this request on these facts")
}
