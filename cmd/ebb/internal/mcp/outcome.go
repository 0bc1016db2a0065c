package mcp

import (
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// States of an outcome.
const (
	issued    = "issued"
	waits     = "pending"
	byCommand = "by_command"
)

// outcome is the outcome of a request. It has no member for a secret.
type outcome struct {
	State       string         `json:"state"`
	Scope       string         `json:"scope"`
	DoNext      string         `json:"do_next"`
	RequestID   string         `json:"request_id,omitempty"`
	RequestURL  string         `json:"request_url,omitempty"`
	ExpiresIn   int64          `json:"expires_in_seconds,omitempty"`
	LeaseID     string         `json:"lease_id,omitempty"`
	Placeholder string         `json:"placeholder,omitempty"`
	Resource    string         `json:"resource,omitempty"`
	ExpiresAt   *time.Time     `json:"expires_at,omitempty"`
	Command     []string       `json:"command,omitempty"`
	Endpoint    *wire.Endpoint `json:"endpoint,omitempty"`
}

// awsFormat is the issued_token_type of an AWS session.
const awsFormat = "urn:ebb:token-type:aws"

// outcomeOf returns a placeholder, or the command by which a tool gets the
// credential. A credential whose type is placeholder but whose value is none is
// not returned.
func outcomeOf(c client.Credential, q question, delivery string) outcome {
	o := outcome{Scope: out.Line(c.Scope), Resource: out.Line(c.Resource)}
	if name, is := placeholder(c); is {
		at := c.ExpiresAt.UTC()
		o.State, o.LeaseID, o.Placeholder, o.ExpiresAt = issued, c.LeaseID, name, &at
		if delivery == wire.DeliveryToken {
			o.DoNext = "This credential is never returned: only ebb's egress proxy adds it to requests from a sandbox of its runner. In such a sandbox put the placeholder where the credential belongs."
			return o
		}
		if c.Endpoint != nil {
			o.Endpoint = &wire.Endpoint{Protocol: out.Line(c.Endpoint.Protocol), Host: out.Line(c.Endpoint.Host), Database: out.Line(c.Endpoint.Database)}
			o.DoNext = "Connect to the database of endpoint with the placeholder as the password, such as PGPASSWORD, through the proxy of this sandbox or by a host name that leads to it. It works nowhere else."
			return o
		}
		o.DoNext = "Put the placeholder where the credential belongs, such as the header Authorization: Bearer, and send the request through the proxy of this sandbox. It works nowhere else."
		return o
	}
	o.State = byCommand
	o.Command = []string{"ebb", "token", "--scope", o.Scope}
	if c.Format == awsFormat {
		o.Command = []string{"ebb", "credential", "aws", "--scope", o.Scope}
	}
	if q.tool != "" {
		o.Command = append(o.Command, "--tool", q.tool)
	}
	if delivery != "" {
		o.Command = append(o.Command, "--delivery", delivery)
	}
	o.DoNext = "The credential is granted but not shown here. Let the tool that needs it get it in this sandbox: run the command, or configure `ebb credential git|docker|kubectl|aws` as its helper. An approval given once is reused."
	if c.Type == "DPoP" {
		o.DoNext += " It is bound to the sandbox's key: add --use \"METHOD URL\" for the header lines of one request."
	}
	return o
}

// placeholder returns the token if it is a valid placeholder for a lease of
// ebb.
func placeholder(c client.Credential) (string, bool) {
	if c.Format != provider.PlaceholderFormat {
		return "", false
	}
	name := c.Token.Reveal()
	lease, is := strings.CutPrefix(name, egress.Prefix)
	return name, is && leaseName.MatchString(lease)
}

// waits is the outcome of a request that waits for an approval.
func (f *flight) waits() outcome {
	return outcome{
		State: waits, Scope: f.asked, RequestID: out.Line(f.pending.RequestID), RequestURL: out.Line(f.pending.Page),
		ExpiresIn: max(int64(time.Until(f.until)/time.Second), 0),
		DoNext:    decides(f.pending),
	}
}

// decides names the place where the request is decided.
func decides(p client.Pending) string {
	where := "at request_url"
	if p.Page == "" {
		where = "on ebb's machine: `ebb console` opens the page, or `ebb requests show " + out.Line(p.RequestID) + "` prints it"
	}
	return "A person has to decide " + where + ". Tell them, and poll with get_request. Repeating or rewording the request changes nothing."
}
