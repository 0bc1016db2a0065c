package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// RequestsService reads approval requests and decides them.
type RequestsService struct{ *session }

// RequestFilter selects requests. Zero members match every request.
type RequestFilter struct {
	TaskID string
	Owner  string
	State  wire.RequestState
	Group  string    // requests that this group can decide
	Since  time.Time // created or decided after this time
	Page   Page
}

// List lists approval requests.
func (s *RequestsService) List(ctx context.Context, f RequestFilter) (wire.List[wire.Request], error) {
	q := pageQuery(f.Page)
	set(q, "task_id", f.TaskID)
	set(q, "owner", f.Owner)
	set(q, "state", string(f.State))
	set(q, "group", f.Group)
	setTime(q, "since", f.Since)
	var out wire.List[wire.Request]
	return out, s.do(ctx, http.MethodGet, "/v1/requests", q, nil, &out)
}

// Get returns one request with its facts and their digest.
func (s *RequestsService) Get(ctx context.Context, id string) (wire.Request, error) {
	var out wire.Request
	return out, s.do(ctx, http.MethodGet, requestPath(id, ""), nil, nil, &out)
}

// Approve approves the facts with v.Digest, or less when v.Scopes or v.TTL is
// set. Kind Conflict: the facts have changed; review them again. Kind
// StepUpRequired: the risk requires proofs that only the console accepts;
// Problem.Missing names them.
func (s *RequestsService) Approve(ctx context.Context, id string, v wire.ApprovalBody) (wire.Request, error) {
	var out wire.Request
	err := s.do(ctx, http.MethodPost, requestPath(id, "/approve"), nil, v, &out)
	if p, ok := errors.AsType[*Problem](err); ok && p.Kind == wire.KindStepUpRequired {
		p.Page = page(s.issuer, id)
	}
	return out, err
}

// Deny denies a request. The agent gets v.Code as the reason. Suspicious also
// stops the task.
func (s *RequestsService) Deny(ctx context.Context, id string, v wire.DenialBody) (wire.Request, error) {
	var out wire.Request
	return out, s.do(ctx, http.MethodPost, requestPath(id, "/deny"), nil, v, &out)
}

func requestPath(id, verb string) string { return "/v1/requests/" + url.PathEscape(id) + verb }
