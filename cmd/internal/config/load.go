package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"
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
