package aws_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/aws"
)

// TestStrangeCallers checks that responses with names which IAM does not allow give no
// identity.
func TestStrangeCallers(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *aws.Config) { c.AllowUsers = true })
	const sts, iam = "arn:aws:sts::" + account + ":", "arn:aws:iam::" + account + ":"
	role, user := roleLogin.userID[:len("AROA")+17], userLogin.userID
	for name, tc := range map[string]struct{ arn, id string }{
		"a session with a slash":     {sts + "assumed-role/worker/a/task-42", role + ":a/task-42"},
		"a session of one letter":    {sts + "assumed-role/worker/x", role + ":x"},
		"a session of 65 letters":    {sts + "assumed-role/worker/" + strings.Repeat("x", 65), role + ":" + strings.Repeat("x", 65)},
		"a session with a colon":     {sts + "assumed-role/worker/a:b", role + ":a:b"},
		"a session with a blank":     {sts + "assumed-role/worker/a b", role + ":a b"},
		"a role with a blank":        {sts + "assumed-role/wor ker/task-42", role + ":task-42"},
		"a role with a colon":        {sts + "assumed-role/aws:other/task-42", role + ":task-42"},
		"a role without a name":      {sts + "assumed-role//task-42", role + ":task-42"},
		"a role of 65 letters":       {sts + "assumed-role/" + strings.Repeat("x", 65) + "/task-42", role + ":task-42"},
		"a user with a blank":        {iam + "user/a b", user},
		"a user without a name":      {iam + "user/team/", user},
		"a user by a role's id":      {iam + "user/team/ann", role},
		"a user by an account":       {iam + "user/team/ann", account},
		"a federated user, a slash":  {sts + "federated-user/a/b", account + ":a/b"},
		"a federated user's account": {sts + "federated-user/bob", "999999999999:bob"},
		"another federated user":     {sts + "federated-user/bob", account + ":bobby"},
		"a federated instance":       {sts + "federated-user/aws:ec2-instance:i-0123456789abcdef0", account + ":aws:ec2-instance:i-0123456789abcdef0"},
	} {
		b.says(http.StatusOK, identity(account, tc.arn, tc.id))
		if id, err := b.aws.Attest(t.Context(), b.evidence(t, nil)); err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s: got %+v, %v", name, id, err)
		}
	}
}

// instance_id is set only for roles that only EC2 can assume. A caller that assumes
// another role chooses the session name.
func TestInstanceID(t *testing.T) {
	t.Parallel()
	const other = "210987654321"
	b := newBed(t, func(c *aws.Config) { c.Accounts, c.EC2Roles = []string{account, other}, []string{account + "/box"} })
	for name, tc := range map[string]struct {
		account, role, session string
		want                   bool
	}{
		"as configured":            {account, "box", "i-0123456789abcdef0", true},
		"an old instance":          {account, "box", "i-01234567", true},
		"no instance":              {account, "box", "task-42", false},
		"an instance and more":     {account, "box", "i-0123456789abcdef0x", false},
		"another account's role":   {other, "box", "i-0123456789abcdef0", false},
		"a role that starts alike": {account, "box2", "i-0123456789abcdef0", false},
		"a role in capitals":       {account, "BOX", "i-0123456789abcdef0", false},
	} {
		b.says(http.StatusOK, identity(tc.account, "arn:aws:sts::"+tc.account+":assumed-role/"+tc.role+"/"+tc.session, "AROAABCDEFGHIJKLMNOPQ:"+tc.session))
		id, err := b.aws.Attest(t.Context(), b.evidence(t, nil))
		if err != nil || (id.Selectors["instance_id"] != "") != tc.want {
			t.Errorf("%s: got %v, %v", name, id.Selectors, err)
		}
	}
}

// Some clients also sign the header with the hash of the body.
func TestSignedHash(t *testing.T) {
	t.Parallel()
	b := newBed(t, nil)
	e := b.evidence(t, func(a *ask) {
		a.header.Set("X-Amz-Content-Sha256", "ab821ae955788b0e33ebd34c208442ccfc2d406e2edc5e7a39bd6458fbb4f843")
	})
	if !strings.Contains(string(e.Document), "x-amz-content-sha256") {
		t.Fatal("the hash is not signed")
	}
	if _, err := b.aws.Attest(t.Context(), e); err != nil {
		t.Error(err)
	}
}
