package aws

import (
	"errors"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// TestRoleServesAllOfASet: the driver assumes the first role that covers all scopes of a set,
// and none if no role does.
func TestRoleServesAllOfASet(t *testing.T) {
	t.Parallel()
	const one, two = "arn:aws:iam::111122223333:role/one", "arn:aws:iam::111122223333:role/two"
	c := config()
	c.Name, c.Areas, c.Statements = "s3", nil, nil
	c.Roles = []Role{{Scopes: []string{"s3:data/**:read"}, ARNs: []string{one}}, {Scopes: []string{"s3:data/out/**:write", "s3:data/**:read"}, ARNs: []string{two}}}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]string{
		"s3:data/a:read": one, "s3:data/out/a:write": two, "s3:data/a:read s3:data/out/a:write": two,
		"s3:data/a:write": "", "s3:other/a:read": "", "s3:data/a:read s3:data/a:delete": "", "gs:data/a:read": "",
	} {
		r, _, err := d.plan(scopes.MustParseSet(set), deadline)
		if want == "" {
			if !errors.Is(err, provider.ErrUnsupported) {
				t.Errorf("%s: role %v, %v", set, r.arns, err)
			}
		} else if err != nil || r.arns[0] != want {
			t.Errorf("%s: role %v, %v", set, r.arns, err)
		}
	}
}
