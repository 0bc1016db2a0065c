package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"ebb/broker"
)

// OpenBox opens a way out for a tool of a task: on the machine of the broker, or, with
// broker.BoxByRunner, on this one; then ConnectBox hands its connections on.
func (o *Operator) OpenBox(ctx context.Context, taskID string, spec broker.BoxSpec) (broker.Box, error) {
	var out broker.Box
	return out, o.do(ctx, http.MethodPost, taskPath(taskID, "/boxes"), nil, spec, &out)
}

// ConnectBox hands one connection of a box on: what is written to it and read from it is what the box
// would say to its socket. It is the caller's to close; ctx ends only the way to it.
func (o *Operator) ConnectBox(ctx context.Context, x broker.Box) (io.ReadWriteCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	resp, err := o.authorized(ctx, call{method: http.MethodPost, path: boxPath(x, "/connect"), upgrade: upgradeEgress})
	if err != nil {
		return nil, err
	}
	conn, is := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !is || !strings.EqualFold(resp.Header.Get("Upgrade"), upgradeEgress) {
		_ = resp.Body.Close()
		return nil, badAnswer("is none of ebb's egress; check that what is between passes Upgrade on", nil)
	}
	return conn, nil
}

// upgradeEgress is the protocol of ConnectBox, as web/api names it.
const upgradeEgress = "ebb-egress"

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
