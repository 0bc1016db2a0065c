package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Source is the source of a configuration.
type Source struct {
	File    string   // "" = none: defaults and variables only
	Environ []string // "NAME=value", as returned by os.Environ
}

// Load reads defaults, then the file, then the EBB_ variables, and checks the
// result. If the configuration is wrong, the error is Problems with all of
// them, and the Config is incomplete, fit only for further checks.
func Load(s Source) (Config, error) {
	if s.File == "" {
		return load("", nil, s.Environ)
	}
	text, err := readBounded(s.File, maxFile)
	if err != nil {
		var ps Problems
		ps.add("--config", s.File, reason(err), "name a readable YAML file, or remove --config to run with defaults")
		return Config{}, ps
	}
	return load(filepath.Base(s.File), text, s.Environ)
}

func load(name string, text []byte, environ []string) (Config, error) {
	var c Config
	var ps Problems
	src := map[string]string{}
	for _, k := range keys {
		if k.Default == "" {
			continue
		}
		if err := set(k.to(&c, nil), k.Default); err != nil {
			return Config{}, fmt.Errorf("default of %s: %w", k.Path, err)
		}
	}
	r := &reader{name: name, lines: true, problems: &ps, src: src}
	if root := r.document(text); root != nil {
		r.mapping("", root, c.tree(r, ""))
	}
	environment(&c, environ, src, &ps)
	c.check(environ, src, &ps)
	if len(ps) > 0 {
		return c, ps
	}
	return c, nil
}

// tree returns the fields below prefix, including groups.
func (c *Config) tree(r *reader, prefix string) []field {
	var out []field
	seen := map[string]bool{}
	for _, k := range keys {
		rest, ok := strings.CutPrefix(k.Path, prefix)
		if !ok {
			continue
		}
		name, _, group := strings.Cut(rest, ".")
		switch {
		case seen[name]:
		case group:
			below := prefix + name + "."
			out = append(out, field{name, func(path string, n ast.Node) { r.mapping(path, n, c.tree(r, below)) }})
		case k.Secret:
			out = append(out, field{name, func(path string, n ast.Node) {
				r.problems.add(path, r.where(n), "a secret must not be in this file", "write it to a file and name the file in "+path+"_file, or set "+Variable(path))
			}})
		default:
			to := k.to(c, r)
			if list, ok := to.(listOf); ok {
				to = (func(string, ast.Node))(list)
			}
			out = append(out, field{name, to})
		}
		seen[name] = true
	}
	return out
}

// readBounded reads a regular file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = errors.New("the file is too large for this purpose")
	}
	return b, err
}

// reason returns an error of the file system without the path, which the
// message names already.
func reason(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// clientVariables configure client commands and tests. They are not keys of the
// configuration and never reported as unknown.
var clientVariables = []string{"EBB_CONFIG", "EBB_URL", "EBB_SOCKET", "EBB_CLIENT_ID", "EBB_KEY_FILE", "EBB_CA_FILE", "EBB_CONTEXT", "EBB_OUTPUT", "EBB_TASK_ID", "EBB_TICKET"}

// serviceLink matches a variable that Kubernetes sets in each container of a
// namespace for a Service named ebb or ebb-SOMETHING (kubelet's
// envvars.FromServices). Both name and value must have the form: EBB_PORT=8420
// is a mistake and must be reported.
var serviceLink = lazyregexp.New(`^EBB(?:_[A-Z0-9][A-Z0-9_]*)?_(?:` +
	`SERVICE_HOST=(?:` + ip4 + `|` + ip6 + `)|` +
	`SERVICE_PORT(?:_[A-Z0-9][A-Z0-9_]*)?=[0-9]{1,5}|` +
	`PORT(?:_[0-9]+_(?:TCP|UDP|SCTP))?=(?:tcp|udp|sctp)://(?:` + ip4 + `|\[` + ip6 + `\]):[0-9]{1,5}|` +
	`PORT_[0-9]+_(?:TCP|UDP|SCTP)_PROTO=(?:tcp|udp|sctp)|` +
	`PORT_[0-9]+_(?:TCP|UDP|SCTP)_PORT=[0-9]{1,5}|` +
	`PORT_[0-9]+_(?:TCP|UDP|SCTP)_ADDR=(?:` + ip4 + `|` + ip6 + `))$`)

const (
	ip4 = `[0-9]{1,3}(?:\.[0-9]{1,3}){3}`
	ip6 = `[0-9a-f]*:[0-9a-f:]*`
)

// Variable is the environment variable of a key: redis.addrs is EBB_REDIS_ADDRS.
func Variable(path string) string {
	return "EBB_" + strings.ToUpper(strings.NewReplacer(".", "_").Replace(path))
}

// environment applies the EBB_ variables, in the order of the table. An empty
// variable counts as not set, because container tools pass empty variables.
// Service links of Kubernetes are ignored.
func environment(c *Config, environ []string, src map[string]string, ps *Problems) {
	left := map[string]string{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if value != "" && strings.HasPrefix(name, "EBB_") && !strings.HasPrefix(name, "EBB_TEST_") && !slices.Contains(clientVariables, name) {
			left[name] = value
		}
	}
	known := slices.Clone(clientVariables)
	for _, k := range keys {
		name := Variable(k.Path)
		known = append(known, name)
		value, found := left[name]
		if !found {
			continue
		}
		delete(left, name)
		src[k.Path] = name
		r := reader{name: name, problems: ps, src: src}
		to := k.to(c, &r)
		if list, ok := to.(listOf); ok {
			if n := r.document([]byte(value)); n != nil {
				list(k.Path, n)
			}
			continue
		}
		if err := set(to, value); err != nil {
			ps.add(k.Path, name, err.Error(), "change the variable")
		}
	}
	unknown := make([]string, 0, len(left))
	for name, value := range left {
		if serviceLink.MatchString(name + "=" + value) {
			c.ServiceLinks = append(c.ServiceLinks, name)
		} else {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(c.ServiceLinks)
	slices.Sort(unknown)
	for _, name := range unknown {
		ps.add(name, "", "there is no such variable", "unset it; "+near(name, known))
	}
}

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
			text, err := secret.Read(s.file)
			if err != nil {
				ps.add(key, src[key], strings.TrimPrefix(err.Error(), "secret: "), "write the password alone into that file, then chmod 600 "+s.file)
			}
			*s.to = text
		}
	}
}

// secretKey marks a key whose value is a secret. Messages about it never contain
// the value.
type secretKey struct{ to *secret.Secret }
