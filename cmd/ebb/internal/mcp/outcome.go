package mcp

import (
	"strings"
	"time"

	"ebb/broker/egress"
	"ebb/broker/provider"
	"ebb/cmd/ebb/internal/out"
	"ebb/scopes/policy"
	"ebb/web/client"
)

// States of an outcome.
const (
	issued    = "issued"
	waits     = "pending"
	byCommand = "by_command"
)

// outcome is what came of a question. It has no member for a secret.
type outcome struct {
	State       string             `json:"state"`
	Scope       string             `json:"scope"`
	DoNext      string             `json:"do_next"`
	RequestID   string             `json:"request_id,omitempty"`
	RequestURL  string             `json:"request_url,omitempty"`
	ExpiresIn   int64              `json:"expires_in_seconds,omitempty"`
	LeaseID     string             `json:"lease_id,omitempty"`
	Placeholder string             `json:"placeholder,omitempty"`
	Resource    string             `json:"resource,omitempty"`
	ExpiresAt   *time.Time         `json:"expires_at,omitempty"`
	Command     []string           `json:"command,omitempty"`
	Endpoint    *provider.Endpoint `json:"endpoint,omitempty"`
}

// awsFormat is that of a session of AWS (issued_token_type).
const awsFormat = "urn:ebb:token-type:aws"

// outcomeOf is a credential as it may be told: a placeholder, which is a name, or how a tool
// gets the credential itself. What only says that it is a placeholder is none.
func outcomeOf(c client.Credential, q question, delivery string) outcome {
	o := outcome{Scope: c.Scope.String(), Resource: out.Line(c.Resource)}
	if name, is := placeholder(c); is {
		at := c.ExpiresAt.UTC()
		o.State, o.LeaseID, o.Placeholder, o.ExpiresAt = issued, c.LeaseID, name, &at
		if delivery == policy.DeliveryToken {
			o.DoNext = "This one is never handed out: only ebb's egress proxy adds it to requests, from a box of its runner. Where this runs in one, put the placeholder where the credential belongs."
			return o
		}
		if c.Endpoint != nil {
			o.Endpoint = &provider.Endpoint{Protocol: out.Line(c.Endpoint.Protocol), Host: c.Endpoint.Host, Database: out.Line(c.Endpoint.Database)}
			o.DoNext = "Connect to the database of endpoint with the placeholder as the password, such as PGPASSWORD, through the proxy of this box or under a name that leads to it. It works nowhere else."
			return o
		}
		o.DoNext = "Put the placeholder where the credential belongs, such as the header Authorization: Bearer, and send the request through the proxy of this box. It works nowhere else."
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
	o.DoNext = "Policy grants it, and it is not shown here. Let the tool that needs it get it in this sandbox: run the command, or configure `ebb credential git|docker|kubectl|aws` as its helper. What a person approved is not asked again."
	if c.Type == "DPoP" {
		o.DoNext += " It is bound to the sandbox's key: add --use \"METHOD URL\" for the header lines of one request."
	}
	return o
}

// placeholder is the name that a credential consists of: a lease of ebb's and nothing else.
func placeholder(c client.Credential) (string, bool) {
	if c.Format != provider.PlaceholderFormat {
		return "", false
	}
	name := c.Token.Reveal()
	lease, is := strings.CutPrefix(name, egress.Prefix)
	return name, is && leaseName.MatchString(lease)
}

// waits is a question that people have.
func (f *flight) waits() outcome {
	return outcome{
		State: waits, Scope: f.asked.String(), RequestID: out.Line(f.pending.RequestID), RequestURL: out.Line(f.pending.Page),
		ExpiresIn: max(int64(time.Until(f.until)/time.Second), 0),
		DoNext:    decides(f.pending),
	}
}

// decides says where a person decides.
func decides(p client.Pending) string {
	where := "at request_url"
	if p.Page == "" {
		where = "on ebb's machine: `ebb console` opens the page, or `ebb requests show " + out.Line(p.RequestID) + "` prints it"
	}
	return "A person has to decide " + where + ". Tell them, and look with get_request. Asking again, or with other words, changes nothing."
}
