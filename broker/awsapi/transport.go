package awsapi

import (
	"bytes"
	"io"
	"net/http"
	"regexp"

	"ebb/broker/provider"
)

// named gives refusals of Ceph RGW the form of AWS's query protocol, whose error has
// one element more around it: the SDK finds no code in them otherwise, and a status
// alone says nothing of who sent it.
type named struct{ http.RoundTripper }

// bare is RGW's error; before it there can be what the gateway wrote first.
var bare = regexp.MustCompile(`<Error><Code>([A-Za-z0-9.]{1,64})</Code>[^\x00]*</Error>\s*$`)

// RoundTrip implements http.RoundTripper.
func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return resp, err
	}
	body, err := provider.ReadBody(resp, maxAnswer)
	if err != nil {
		return nil, err
	}
	if m := bare.FindSubmatch(body); m != nil && !bytes.Contains(body, []byte("<ErrorResponse")) {
		body = []byte("<ErrorResponse><Error><Code>" + string(m[1]) + "</Code></Error></ErrorResponse>")
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}
