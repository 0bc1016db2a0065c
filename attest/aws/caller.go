package aws

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest"
)

// caller is the identity of the signer as STS reports it.
type caller struct {
	Account string `json:"Account"`
	ARN     string `json:"Arn"`
	UserID  string `json:"UserId"`
}

// The kinds of callers, as ARNs name them.
const (
	kindRole      = "assumed-role"
	kindUser      = "user"
	kindFederated = "federated-user"
)

// instanceRole is the instance identity role, which EC2 gives to every instance. No
// account can create a role with this name, because a colon is not allowed in one.
const instanceRole = "aws:ec2-instance"

// principal has the parts of a caller.
type principal struct {
	caller
	kind string
	role string // kindRole
	// name is the name of the session, of the user without its path, or of the
	// federated user.
	name string
	// id is the id of the role (AROA...) or user (AIDA...). AWS never reuses these ids.
	id string
}

var (
	arnForm      = regexp.MustCompile(`^arn:(aws|aws-cn|aws-us-gov):(sts|iam)::([0-9]{12}):([a-z-]{1,32})/(.{1,600})$`)
	nameForm     = regexp.MustCompile(`^[A-Za-z0-9_+=,.@-]{2,64}$`)
	userForm     = regexp.MustCompile(`^(?:[!-.0-~]{1,512}/)*[A-Za-z0-9_+=,.@-]{1,64}$`)
	roleIDForm   = regexp.MustCompile(`^AROA[A-Z0-9]{12,124}$`)
	userIDForm   = regexp.MustCompile(`^AIDA[A-Z0-9]{12,124}$`)
	instanceForm = regexp.MustCompile(`^i-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)
)

var errCaller = errors.New("the account, the ARN and the user id in the response of STS contradict each other or have an unknown form")

// parse splits the response of STS into its parts. A response with an unknown form
// gives an error that is not a rejection.
func (c caller) parse(partition string) (principal, error) {
	m := arnForm.FindStringSubmatch(c.ARN)
	if m == nil && c.ARN == "arn:"+partition+":iam::"+c.Account+":root" {
		return principal{}, attest.Reject(attest.ReasonClaims, "the credentials belong to the root user of an account; use those of a role", nil)
	}
	if m == nil || m[1] != partition || m[3] != c.Account {
		return principal{}, errCaller
	}
	p := principal{caller: c, kind: m[4], name: m[5]}
	ok := false
	switch m[2] + " " + m[4] {
	case "sts " + kindRole:
		p.role, p.name, _ = strings.Cut(m[5], "/")
		p.id, _, _ = strings.Cut(c.UserID, ":")
		ok = nameForm.MatchString(p.name) && roleForm.MatchString(p.role) && roleIDForm.MatchString(p.id) && c.UserID == p.id+":"+p.name
		if p.role == instanceRole {
			p.id = ""
			ok = instanceForm.MatchString(p.name) && c.UserID == c.Account+":"+instanceRole+":"+p.name
		}
	case "iam " + kindUser:
		ok = userForm.MatchString(p.name) && userIDForm.MatchString(c.UserID)
		p.name, p.id = p.name[strings.LastIndexByte(p.name, '/')+1:], c.UserID
	case "sts " + kindFederated:
		ok = nameForm.MatchString(p.name) && c.UserID == c.Account+":"+p.name
	}
	if !ok {
		return principal{}, errCaller
	}
	return p, nil
}

// selectors returns the facts that a runner may register.
func (p principal) selectors(region string, ec2Roles []string) map[string]string {
	out := map[string]string{"account": p.Account, "arn": p.ARN, "user_id": p.UserID, "region": region}
	if p.id != "" {
		out["principal_id"] = p.id
	}
	if p.kind == kindUser {
		out["user"] = p.name
	}
	if p.kind != kindRole {
		return out
	}
	out["role"], out["session"] = p.role, p.name
	if instanceForm.MatchString(p.name) && (p.role == instanceRole || slices.Contains(ec2Roles, p.Account+"/"+p.role)) {
		out["instance_id"] = p.name
	}
	return out
}
