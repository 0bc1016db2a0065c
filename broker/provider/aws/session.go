package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// handle is the stored state of a session, sealed by the broker. It holds everything that a
// revocation needs, independent of the configuration at that time. It holds a credential only for
// a session that stays in ebb, where egress signs with it.
type handle struct {
	Role    string `json:"role"`           // ARN
	Session string `json:"session"`        // RoleSessionName, and SourceIdentity when that is set
	By      keyed  `json:"by"`             // the condition key that a denial compares
	Task    string `json:"task,omitempty"` // value of the tag ebb-task, if it was sent
	Issued  int64  `json:"issued"`         // Unix seconds of AWS's clock; before the response, the latest possible
	Until   int64  `json:"until"`          // Unix seconds; no Allow of the session holds from then on

	Key *sessionKey `json:"key,omitempty"` // set with Grant.Injected; nil when the sandbox has the credential
}

// sessionKey signs requests of a session.
type sessionKey struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
	Token  string `json:"token"`
}

// keyed is the condition key that a denial compares.
type keyed string

const (
	byUserID         keyed = "aws:userid"         // <id of the role>:<RoleSessionName>
	bySourceIdentity keyed = "aws:SourceIdentity" // includes sessions chained from it
)

// sessionForm matches a RoleSessionName of ebb. The last 16 hexadecimal digits are random
// bits of the lease's name.
var sessionForm = lazyregexp.New(`^[\w+=,.@-]{2,48}[0-9a-f]{16}$`)

// patternForms are the forms of pattern, by condition key.
var patternForms = map[keyed]*lazyregexp.Regexp{
	byUserID:         lazyregexp.New(`^\*:[\w+=,.@-]{2,48}[0-9a-f]{16}$`),
	bySourceIdentity: lazyregexp.New(`^\*[0-9a-f]{16}$`),
}

// pattern returns the value that denials of the session compare with StringLike. For a
// source identity it is only the random end of the name, so that more fit into a policy; if
// two sessions ever share it, both are denied. For a user id it is the whole name, because
// RGW's "*" ends at the first ":" and does not backtrack.
func (h handle) pattern() string {
	if h.By == bySourceIdentity {
		return "*" + h.Session[len(h.Session)-16:]
	}
	return "*:" + h.Session
}

func (h handle) secret() (secret.Secret, error) {
	b, err := json.Marshal(h)
	return secret.New(string(b)), err
}

// readHandle is the inverse of secret.
func readHandle(s secret.Secret) (handle, error) {
	var h handle
	d := json.NewDecoder(bytes.NewReader([]byte(s.Reveal())))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return handle{}, fmt.Errorf("the handle is not from this driver: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return handle{}, errors.New("the handle is not from this driver: it is followed by more data")
	}
	if !roleForm.MatchString(h.Role) || !sessionForm.MatchString(h.Session) || h.By != byUserID && h.By != bySourceIdentity ||
		h.Issued <= 0 || h.Until <= 0 || h.Until > maxUnix || h.Issued > maxUnix || h.Task != tagValue(h.Task) {
		return handle{}, errors.New("the handle is not from this driver: a member is malformed")
	}
	if h.Key != nil && (h.Key.ID == "" || h.Key.Secret == "" || h.Key.Token == "") {
		return handle{}, errors.New("the handle is not from this driver: its key is incomplete")
	}
	return h, nil
}

// maxUnix keeps times within the digits of sidForm.
const maxUnix = 99_000_000_000

// over reports whether the session has expired.
func (h handle) over(now time.Time) bool { return now.Unix() >= h.Until+int64(skew/time.Second) }

// skew is the difference between AWS's clock and ebb's from which a check reports it.
const skew = 2 * time.Minute

// tagForm matches the characters that AWS does not accept in all tag values.
var tagForm = lazyregexp.New(`[^A-Za-z0-9_.:/=+@ -]`)

// tagValue converts a text to a tag value of at most 256 accepted characters.
func tagValue(text string) string {
	v := tagForm.ReplaceAllString(text, "_")
	return v[:min(len(v), 256)]
}

// Revoke implements provider.Driver. When it returns, IAM has stored the denial and returned
// it again. The servers that authorize requests follow within the bound.
//
// The handle is durable before AssumeRole is called, so without a handle there was no call
// and there is no session.
func (d *Driver) Revoke(ctx context.Context, t provider.Target) error {
	if t.Handle.Empty() || !d.deny {
		return nil
	}
	h, err := readHandle(t.Handle)
	if err != nil {
		return err
	}
	if h.over(t.Now) {
		return nil
	}
	_, err = d.writer(h.Role).do(ctx, h, true)
	return d.maybeBusy(err)
}

// Probe implements provider.Prober. The session is dead when it has expired, or when IAM has
// its denial and the bound has passed. Probe does not use the session. Its credentials would
// have to be stored for that, sts:GetCallerIdentity accepts denied sessions too, and the
// refusal of another call does not differ from a missing permission.
func (d *Driver) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	if t.Handle.Empty() {
		return false, fmt.Errorf("aws: no session is known: %w", errors.ErrUnsupported)
	}
	h, err := readHandle(t.Handle)
	if err != nil {
		return false, err
	}
	early := !t.AcceptedAt.IsZero() && t.Now.Before(t.AcceptedAt.Add(d.bound))
	switch {
	case h.over(t.Now):
		return false, nil
	case early || !d.deny: // regardless of IAM's policy
		return true, nil
	}
	denied, err := d.writer(h.Role).do(ctx, h, false)
	return !denied, d.maybeBusy(err)
}

func (d *Driver) maybeBusy(err error) error {
	if b := busy(err, d.now()); b != nil {
		return b
	}
	return err
}
