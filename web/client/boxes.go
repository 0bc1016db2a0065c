package client

import (
	"context"
	"net/http"
	"net/url"

	"ebb/broker"
)

// OpenBox opens a way out for a tool of a task ("" = any) on the machine of the broker.
func (o *Operator) OpenBox(ctx context.Context, taskID, tool string) (broker.Box, error) {
	var out broker.Box
	return out, o.do(ctx, http.MethodPost, taskPath(taskID, "/boxes"), nil, struct {
		Tool string `json:"tool,omitempty"`
	}{tool}, &out)
}

// RegisterBox says which network namespace is the box's, by its inode, before anything
// runs in it.
func (o *Operator) RegisterBox(ctx context.Context, x broker.Box, namespace uint64) (broker.Box, error) {
	var out broker.Box
	return out, o.do(ctx, http.MethodPost, boxPath(x, "/register"), nil, struct {
		Namespace uint64 `json:"network_namespace"`
	}{namespace}, &out)
}

// CloseBox cuts everything of a box.
func (o *Operator) CloseBox(ctx context.Context, x broker.Box) (broker.Box, error) {
	var out broker.Box
	return out, o.do(ctx, http.MethodPost, boxPath(x, "/close"), nil, nil, &out)
}

func boxPath(x broker.Box, verb string) string {
	return taskPath(x.TaskID, "/boxes/"+url.PathEscape(x.ID)+verb)
}
