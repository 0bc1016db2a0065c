package aws

import (
	"errors"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
)

// newGateway is Ceph's. The key's user may manage roles.
func newGateway(t testing.TB) *gateway {
	t.Helper()
	g := openGateway(t, flavorRGW)
	name := g.bucket
	g.iam = iam.NewFromConfig(g.sdk(credentials.NewStaticCredentialsProvider(g.key, g.sec, "")))
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["arn:aws:iam:::user/broker"]},"Action":["sts:AssumeRole"]}]}`
	base := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:*"],"Resource":["arn:aws:s3:::*"]}]}`
	_, err := g.iam.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: &trust})
	g.did(err)
	_, err = g.iam.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: &name, PolicyName: sdk.String("base"), PolicyDocument: &base})
	g.did(err)
	g.role = "arn:aws:iam:::role/" + name
	g.fill()
	return g
}

func TestGatewayConformance(t *testing.T) {
	providertest.Run(t, newGateway(t).subject())
}

func TestGatewayEnforcesTheScopes(t *testing.T) {
	newGateway(t).enforcesTheScopes()
}

func TestGatewayRevokesOneLease(t *testing.T) {
	g := newGateway(t)
	d, gs := driver(t, g.config()), g.grants(inputs)
	ls := mintAll(t, d, gs, 3, "tsk_1")
	alive := func(l lease) bool { return g.allowed(g.get(t.Context(), g.as(l.Credential), "in/a.csv")) }
	if !alive(ls[0]) || !alive(ls[1]) || !alive(ls[2]) {
		t.Fatal("not alive to begin with")
	}
	start := time.Now()
	g.must(d.Revoke(t.Context(), gs.target(ls[0].Grant, ls[0].Credential)))
	t.Logf("revoking took %s", time.Since(start))
	if alive(ls[0]) || !alive(ls[1]) || !alive(ls[2]) {
		t.Errorf("alive: %v, neighbours %v %v", alive(ls[0]), alive(ls[1]), alive(ls[2]))
	}
	if isAlive, err := d.Probe(t.Context(), gs.target(ls[1].Grant, ls[1].Credential)); err != nil || !isAlive {
		t.Errorf("Probe of a neighbour: %v %v", isAlive, err)
	}
	// A mint with an unknown outcome: only its handle was saved.
	tg := gs.target(ls[1].Grant, provider.Credential{})
	g.must(d.Revoke(t.Context(), tg))
	if alive(ls[1]) || !alive(ls[2]) {
		t.Error("the saved handle does not revoke its lease, or more than that")
	}
	late := cutoff{before: time.Now().Add(time.Second).Unix(), until: time.Now().Add(time.Hour).Unix()}
	doc := newDenials()
	doc.role = late
	g.must(d.aws.write(t.Context(), g.role, doc.String()))
	if alive(ls[2]) {
		t.Error("a cutoff by the time of issue does not hold")
	}
	_, err := g.iam.DeleteRolePolicy(t.Context(), &iam.DeleteRolePolicyInput{RoleName: sdk.String(roleName(g.role)), PolicyName: sdk.String(denyPolicy)})
	g.did(err)
	if !alive(ls[2]) {
		t.Error("the deny was not what denied")
	}
}

func TestGatewayRevokesManyInFewWrites(t *testing.T) {
	g := newGateway(t)
	d, gs := driver(t, g.config()), g.grants(inputs)
	ls, keep := mintAll(t, d, gs, 120, "tsk_1"), mintAll(t, d, gs, 3, "tsk_2")
	start := time.Now()
	revokeAll(t, d, gs, ls)
	t.Logf("120 revocations took %s", time.Since(start))
	for i, l := range append(slices.Clone(ls[:5]), keep...) {
		if got := g.allowed(g.get(t.Context(), g.as(l.Credential), "in/a.csv")); got != (i >= 5) {
			t.Errorf("lease %d: alive %v", i, got)
		}
	}
}

func TestGatewayEndsALeaseBelowSTSFloor(t *testing.T) {
	newGateway(t).endsBelowSTSFloor()
}

func TestGatewaySetup(t *testing.T) {
	g := newGateway(t)
	d := driver(t, g.config())
	if fs := d.CheckSetup(t.Context()); len(fs) != 0 {
		t.Errorf("%+v", fs)
	}
	_, err := g.iam.DeleteRolePolicy(t.Context(), &iam.DeleteRolePolicyInput{RoleName: sdk.String(roleName(g.role)), PolicyName: sdk.String("base")})
	g.did(err)
	_, err = g.iam.DeleteRolePolicy(t.Context(), &iam.DeleteRolePolicyInput{RoleName: sdk.String(roleName(g.role)), PolicyName: sdk.String(denyPolicy)})
	g.did(err)
	ls := mintAll(t, d, g.grants(inputs), 1, "tsk_1")
	_, err = g.iam.DeleteRole(t.Context(), &iam.DeleteRoleInput{RoleName: sdk.String(roleName(g.role))})
	g.did(err)
	gs := g.grants(inputs)
	if _, err := d.Mint(t.Context(), gs.next()); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("Mint with a role that is deleted: %v", err)
	}
	if err := d.Revoke(t.Context(), gs.target(ls[0].Grant, ls[0].Credential)); err != nil {
		t.Errorf("Revoke with a role that is deleted: %v", err)
	}
	if fs := d.CheckSetup(t.Context()); len(fs) != 1 || !fs[0].Fatal {
		t.Errorf("%+v", fs)
	}
}

// TestGatewayMintsThreeHundred: at that gateway about one of 300 responses is truncated, and
// the test repeats that call.
func TestGatewayMintsThreeHundred(t *testing.T) {
	newGateway(t).mintsMany(300)
}
