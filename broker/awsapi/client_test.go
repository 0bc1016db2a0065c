package awsapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// TestShortSecretsInFIPSMode: the SDK panics where it signs with one.
//
//ebb:invariant I6 With `GODEBUG=fips140=only`, an AWS secret access key that is too short for signing is refused
func TestShortSecretsInFIPSMode(t *testing.T) {
	if !counterpart.FIPSOnly(t) {
		return
	}
	dir := t.TempDir()
	c := Config{Region: "eu-west-1", AccessKeyFile: filepath.Join(dir, "id"), SecretKeyFile: filepath.Join(dir, "secret")}
	for secret, refused := range map[string]bool{"123456789": true, "1234567890": false} {
		for name, text := range map[string]string{c.AccessKeyFile: "AKIAEXAMPLE", c.SecretKeyFile: secret} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := c.SDK()
		if err != nil {
			t.Fatal(err)
		}
		got, err := cfg.Credentials.Retrieve(t.Context())
		if refused && (err == nil || !strings.Contains(err.Error(), "GODEBUG=fips140=only")) || !refused && (err != nil || got.SecretAccessKey != secret) {
			t.Errorf("%s: %v", secret, err)
		}
	}
}
