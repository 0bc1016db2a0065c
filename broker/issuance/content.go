package issuance

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Bounds of the search for a refused request.
const (
	refusedAge   = time.Hour
	refusedMost  = 200 // entries
	refusedBytes = 1 << 20
)

// refusedContent returns the content with this id of a refused request of the caller's task. The
// refusal names the id. The facts come from the audit log, so that any replica finds them.
func (i *TokenIssuer) refusedContent(ctx context.Context, w kernel.MintRequest, id string) (*content.Facts, error) {
	_, bodies := w.Provider.Driver.(provider.ContentJudge)
	s, is := w.Provider.Driver.(provider.SessionJudge)
	sessions := is && s.JudgesSessions(w.Scopes)
	if !bodies && !sessions || w.Delivery != policy.DeliveryEgress {
		return nil, broker.E(broker.Invalid, "ebb can limit a credential to one content only if egress adds the credential to requests and reads their bodies, or reads the statements of sessions. For "+broker.Quoted(w.Name)+" it does not do so here.", nil).
			Then("leave content out")
	}
	unknown := broker.E(broker.Invalid, "This task has no refused request with the content "+broker.Quoted(id)+" within the last hour.", nil).
		Then("send the request again, and use the content that its refusal names")
	if !broker.ValidID(broker.ContentPrefix, id) {
		return nil, unknown
	}
	read := 0
	for e, err := range i.store.Entries(ctx, broker.EntryFilter{TaskID: w.Live.ID, Kind: audit.EgressDenied, From: i.clock.Now().Add(-refusedAge), Limit: refusedMost, Desc: true}) {
		if err != nil {
			return nil, broker.StoreError(err)
		}
		if read += len(e.Data); read > refusedBytes {
			break
		}
		var x struct {
			Content *content.Facts `json:"content"`
		}
		if json.Unmarshal(e.Data, &x) == nil && x.Content != nil && broker.ContentID(*x.Content) == id && x.Content.NeedsPeople() == sessions {
			return x.Content, nil
		}
	}
	return nil, unknown
}

// judges reports whether only the body of a request decides whether scopes cover it.
func judges(p broker.Provider, s scopes.Set) bool {
	j, is := p.Driver.(provider.ContentJudge)
	return is && j.Judged(s)
}
