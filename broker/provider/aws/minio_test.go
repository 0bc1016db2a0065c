package aws

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
)

// newMinIO is a real one. The key's user may do everything in S3; the role is only a
// name there.
func newMinIO(t testing.TB) *gateway {
	t.Helper()
	g := openGateway(t, flavorMinIO)
	g.role = "arn:aws:iam:::role/" + g.bucket
	g.fill()
	return g
}

func TestRealMinIOConformance(t *testing.T) {
	providertest.Run(t, newMinIO(t).subject())
}

func TestRealMinIOEnforcesTheScopes(t *testing.T) {
	newMinIO(t).enforcesTheScopes()
}

func TestRealMinIOEndsALeaseBelowSTSFloor(t *testing.T) {
	newMinIO(t).endsBelowSTSFloor()
}

// TestRealMinIOEndsByTimeAlone: the class agrees with the server's behaviour. A session
// remains valid after Revoke; Probe reports it as alive until its expiry, and as dead
// afterwards.
func TestRealMinIOEndsByTimeAlone(t *testing.T) {
	g := newMinIO(t)
	d, gs := driver(t, g.config()), g.grants(inputs)
	if r := d.Traits().Revocability; r.Class != provider.ClassTTLOnly {
		t.Errorf("%+v", r)
	}
	gr := gs.next()
	c, err := d.Mint(t.Context(), gr)
	g.must(err)
	tg := gs.target(gr, c)
	g.must(d.Revoke(t.Context(), tg))
	alive, err := d.Probe(t.Context(), tg)
	g.must(err)
	if used := g.allowed(g.get(t.Context(), g.as(c), "in/a.csv")); alive != used || !used {
		t.Errorf("Probe says alive %v, and the server %v", alive, used)
	}
	tg.Now = c.DiesAt.Add(skew)
	if alive, err = d.Probe(t.Context(), tg); err != nil || alive {
		t.Errorf("Probe after the end: %v %v", alive, err)
	}
}

// TestRealMinIOSessionsAreNarrow: a session has only the rights of its scope, and cannot make
// sessions or keys with more rights.
func TestRealMinIOSessionsAreNarrow(t *testing.T) {
	g := newMinIO(t)
	d, ctx := driver(t, g.config()), t.Context()
	mint := func(set string) provider.Credential {
		c, err := d.Mint(ctx, g.grants(set).next())
		g.must(err)
		return c
	}
	reader, writer := mint("s3:BUCKET/in/**:read"), mint("s3:BUCKET/quarantine/t1/**:write")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"reader reads":              {g.get(ctx, g.as(reader), "in/a.csv"), true},
		"reader lists":              {g.list(ctx, g.as(reader), "in/"), false},
		"reader writes":             {g.put(ctx, g.as(reader), "quarantine/t1/x", ""), false},
		"reader overwrites":         {g.put(ctx, g.as(reader), "in/a.csv", ""), false},
		"writer writes":             {g.put(ctx, g.as(writer), "quarantine/t1/x", ""), true},
		"writer reads its own":      {g.get(ctx, g.as(writer), "quarantine/t1/x"), false},
		"writer reads an input":     {g.get(ctx, g.as(writer), "in/a.csv"), false},
		"writer deletes":            {g.del(ctx, g.as(writer), "quarantine/t1/x"), false},
		"writer climbs by its path": {g.put(ctx, g.as(writer), "quarantine/t10/x", ""), false},
	} {
		if got := g.allowed(c.err); got != c.want {
			t.Errorf("%s: allowed %v", name, got)
		}
	}
	p := documentOf(t, reader)
	chained := sts.NewFromConfig(g.sdk(credentials.NewStaticCredentialsProvider(p.AccessKeyId, p.SecretAccessKey, p.SessionToken)))
	all := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}`
	_, err := chained.AssumeRole(ctx, d.request(provider.Grant{}, handle{Role: g.role, Session: "chained"}, all, minSession))
	if g.allowed(err) {
		t.Error("a session made another one")
	}
	if _, err := d.Mint(ctx, g.grants("s3:BUCKET/in/**:write").next()); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("writing where an area only reads: %v", err)
	}
}

func TestRealMinIOSetup(t *testing.T) {
	g := newMinIO(t)
	d := driver(t, g.config())
	if fs := d.CheckSetup(t.Context()); len(fs) != 0 {
		t.Errorf("%+v", fs)
	}
	g.sec = strings.Repeat("0", len(g.sec))
	wrong := driver(t, g.config())
	if fs := wrong.CheckSetup(t.Context()); len(fs) == 0 || !fs[0].Fatal {
		t.Errorf("with a wrong secret: %+v", fs)
	}
	if _, err := wrong.Mint(t.Context(), g.grants(inputs).next()); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("Mint with a wrong secret: %v", err)
	}
}

func TestRealMinIOMintsAHundred(t *testing.T) {
	newMinIO(t).mintsMany(100)
}
