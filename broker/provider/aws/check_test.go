package aws

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
)

func TestCheckSetup(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*cloud, *Config)
		fatal string // "" = no fatal finding
	}{
		"as it should be":    {func(*cloud, *Config) {}, ""},
		"trust policy":       {func(c *cloud, _ *Config) { c.roles["data-1"].noTags = true }, "cannot be assumed"},
		"role deleted":       {func(c *cloud, _ *Config) { delete(c.roles, "data-1") }, "cannot be assumed"},
		"no iam:Put":         {func(c *cloud, _ *Config) { c.faults["PutRolePolicy"] = slices.Repeat([]fault{forbid}, 9) }, "cannot be revoked"},
		"no iam:GetRole":     {func(c *cloud, _ *Config) { c.faults["GetRole"] = slices.Repeat([]fault{forbid}, 9) }, "cannot be revoked"},
		"own key":            {func(c *cloud, _ *Config) { c.faults["GetCallerIdentity"] = slices.Repeat([]fault{forbid}, 9) }, "GetCallerIdentity"},
		"max_session":        {func(_ *cloud, c *Config) { c.Roles[0].MaxSession = "4h" }, "max_session"},
		"clock":              {func(_ *cloud, c *Config) { c.Now = func() time.Time { return time.Now().Add(-time.Hour) } }, "clock"},
		"rate of AssumeRole": {func(c *cloud, _ *Config) { c.faults["AssumeRole"] = slices.Repeat([]fault{throttle}, 9) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := newCloud(t)
			cfg := cl.config()
			c.spoil(cl, &cfg)
			fs := driver(t, cfg).CheckSetup(t.Context())
			i := slices.IndexFunc(fs, func(f provider.Finding) bool { return f.Fatal })
			if i < 0 && c.fatal != "" || i >= 0 && (c.fatal == "" || !strings.Contains(fs[i].What, c.fatal) || fs[i].Remedy == "") {
				t.Errorf("%+v", fs)
			}
			if len(cl.sessions) != cl.denyAll {
				t.Error("a session was made that could do something")
			}
		})
	}
}
