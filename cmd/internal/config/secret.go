package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/ebb-broker/ebb/broker/secret"
)

// DatabasePassword is the password for Database, or empty.
func (c Config) DatabasePassword() secret.Secret { return c.databasePassword }

// Password is the Redis password, or empty.
func (r Redis) Password() secret.Secret { return r.password }

// SentinelPassword is the password at the Sentinels, or empty.
func (r Redis) SentinelPassword() secret.Secret { return r.sentinelPassword }

// secrets reads the password files. Giving one password both in a file and in a
// variable is a problem.
func (c *Config) secrets(src map[string]string, ps *Problems) {
	for _, s := range []struct {
		key  string
		file string
		to   *secret.Secret
	}{
		{"database_password", c.databasePasswordFile, &c.databasePassword},
		{"redis.password", c.Redis.passwordFile, &c.Redis.password},
		{"redis.sentinel_password", c.Redis.sentinelPasswordFile, &c.Redis.sentinelPassword},
		{"console.oidc.client_secret", c.Console.OIDC.clientSecretFile, &c.Console.OIDC.clientSecret},
	} {
		key := s.key + "_file"
		switch {
		case s.file == "":
		case !s.to.Empty():
			ps.add(key, src[key], "the password is also given elsewhere", "keep one of "+key+" and "+Variable(s.key))
		default:
			text, err := readSecret(s.file)
			if err != nil {
				ps.add(key, src[key], err.Error(), "write the password alone into that file, then chmod 600 "+s.file)
			}
			*s.to = secret.New(text)
		}
	}
}

func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%s: %s", path, reason(err))
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s has mode %04o: other users can read it", path, info.Mode().Perm())
	}
	b, err := readBounded(path, 4<<10)
	if err != nil {
		return "", fmt.Errorf("%s: %s", path, reason(err))
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}
