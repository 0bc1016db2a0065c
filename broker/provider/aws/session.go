package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// handle is the stored state of a session, sealed by the broker. It holds everything that a
// revocation needs, independent of the configuration at that time. It holds a credential only for
// a session that stays in ebb, where egress signs with it.
type handle struct {
	Role    string `json:"role"`           // ARN
	Session string `json:"session"`        // RoleSessionName, and SourceIdentity when that is set
	By      keyed  `json:"by"`             // what a deny compares with it
	Task    string `json:"task,omitempty"` // value of the tag ebb-task, when it was sent
	Issued  int64  `json:"issued"`         // Unix seconds at AWS; before the answer, the latest possible
	Until   int64  `json:"until"`          // Unix seconds: no Allow of the session holds after

	Key *sessionKey `json:"key,omitempty"` // Grant.Injected; nil = the sandbox has it
}

// sessionKey is what requests of a session are signed with.
type sessionKey struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
	Token  string `json:"token"`
}

// keyed is the condition key that a deny compares.
type keyed string

const (
	byUserID         keyed = "aws:userid"         // <id of the role>:<RoleSessionName>
	bySourceIdentity keyed = "aws:SourceIdentity" // also of sessions chained from it
)

// sessionForm is RoleSessionName with our ending: 16 hexadecimal digits, which in
// names of leases are random bits.
var sessionForm = regexp.MustCompile(`^[\w+=,.@-]{2,48}[0-9a-f]{16}$`)

// patternForms are the forms of pattern.
var patternForms = map[keyed]*regexp.Regexp{
	byUserID:         regexp.MustCompile(`^\*:[\w+=,.@-]{2,48}[0-9a-f]{16}$`),
	bySourceIdentity: regexp.MustCompile(`^\*[0-9a-f]{16}$`),
}

// pattern is what denies of the session compare with StringLike. A source identity
// is told by the random end of its name: short, so that more of them fit, and
// should two sessions ever share it, both are denied. A user id is told by all of
// the name, since RGW's "*" ends at the first ":" that it meets and is not tried
// further.
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
		return handle{}, fmt.Errorf("the handle is not one of this driver: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return handle{}, errors.New("the handle is not one of this driver: there is more behind it")
	}
	if !roleForm.MatchString(h.Role) || !sessionForm.MatchString(h.Session) || h.By != byUserID && h.By != bySourceIdentity ||
		h.Issued <= 0 || h.Until <= 0 || h.Until > maxUnix || h.Issued > maxUnix || h.Task != tagValue(h.Task) {
		return handle{}, errors.New("the handle is not one of this driver: a member has not the form of one")
	}
	if h.Key != nil && (h.Key.ID == "" || h.Key.Secret == "" || h.Key.Token == "") {
		return handle{}, errors.New("the handle is not one of this driver: its key is not whole")
	}
	return h, nil
}

// maxUnix keeps times within the digits of sidForm.
const maxUnix = 99_000_000_000

// over reports whether the session can do nothing any more by itself.
func (h handle) over(now time.Time) bool { return now.Unix() >= h.Until+int64(skew/time.Second) }

// skew is how far AWS's clock and ours may be apart before a check complains.
const skew = 2 * time.Minute

// tagForm are the characters of tag values that AWS takes everywhere.
var tagForm = regexp.MustCompile(`[^A-Za-z0-9_.:/=+@ -]`)

// tagValue makes a tag's value of any text: at most 256 of the characters above.
func tagValue(text string) string {
	v := tagForm.ReplaceAllString(text, "_")
	return v[:min(len(v), 256)]
}

// Revoke implements provider.Driver. When it returns, IAM has the deny and has
// shown it again; the places that decide on requests follow within the bound.
//
// The handle is durable before AssumeRole is called: without one there was no
// call and there is no session.
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

// Probe implements provider.Prober: the session is dead when its time is over, or
// when a deny of it stands at IAM and the bound has passed. It does not use the
// session: its credentials would have to be kept for that, sts:GetCallerIdentity
// answers denied sessions too, and a refusal by any other call is not told apart
// from what the session could never do.
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
	case early || !d.deny: // whatever IAM says
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
