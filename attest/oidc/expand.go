package oidc

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ebb/attest"
)

const presetLeeway = 30 * time.Second

// Tokens for these are made for somebody else, on every platform.
var foreignAudiences = []string{"sts.amazonaws.com", "sts.googleapis.com", "https://sts.googleapis.com", "//iam.googleapis.com",
	"https://iam.googleapis.com", "api://AzureADTokenExchange", "sigstore", "https://kubernetes.default.svc", "pypi", "vault"}

// expander turns the configuration of one instance into what its preset makes of
// it, and collects all problems.
type expander struct {
	preset
	file   fileConfig
	values map[string]string // of the parameters
	errs   []error
}

func (e *expander) bad(format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf(format, args...))
}

// expand fills in c, which has what the file says, from the file's preset. What
// the file sets may only narrow the preset.
func (f fileConfig) expand(c *Config) error {
	at := slices.IndexFunc(presets(), func(p preset) bool { return p.name == f.Preset })
	if at < 0 {
		return fmt.Errorf("attest/oidc: configuration: there is no preset %q; the presets are %s", f.Preset, strings.Join(Presets(), ", "))
	}
	e := &expander{preset: presets()[at], file: f, values: map[string]string{}}
	e.checkPinned()
	e.parameters()
	e.allowances()
	c.Issuer, c.JWKSURL, c.Class = e.fill(e.issuer), e.fill(e.keys), attest.ClassSigned
	e.claims(c)
	e.audiences(c)
	e.limits(c)
	if e.bearer {
		c.Class = attest.ClassBearer
	}
	switch {
	case e.bearer && !f.AcceptBearer:
		e.bad("its tokens are worth the same to whoever has seen one, for as long as they live; say accept_bearer: true if that is meant")
	case f.AcceptBearer && !e.bearer:
		e.bad("accept_bearer is for presets of bearer tokens, and this is none")
	}
	if len(e.errs) > 0 {
		return fmt.Errorf("attest/oidc: configuration: preset %s: %w", e.name, errors.Join(e.errs...))
	}
	return nil
}

func (e *expander) checkPinned() {
	for _, pinned := range []struct {
		key string
		set bool
	}{{"issuer", e.file.Issuer != ""}, {"jwks", len(e.file.JWKS) > 0}, {"jwks_file", e.file.JWKSFile != ""},
		{"jwks_url", e.file.JWKSURL != ""}, {"types", len(e.file.Types) > 0}, {"subject", e.file.Subject != ""}, {"other_audiences", len(e.file.OtherAudiences) > 0}} {
		if pinned.set {
			e.bad("%s is pinned by the preset and cannot be set; leave it out, or leave out preset and say all of it yourself", pinned.key)
		}
	}
	if e.file.Fetch.Private && !slices.ContainsFunc(e.params, func(p param) bool { return p.host }) {
		e.bad("allow_private_addresses: the keys of this platform are on the public internet")
	}
}

func (e *expander) parameters() {
	known := map[string]bool{}
	for _, p := range e.params {
		known[p.name] = true
		v, set := e.file.Parameters[p.name]
		switch {
		case !set && p.fallback != "":
			v = p.fallback
		case !set && p.optional:
			continue
		case !set:
			e.bad("parameters: %s is missing", p.name)
		}
		if (set || v != "") && (!p.pattern.MatchString(v) || strings.Contains(v, "..")) {
			e.bad("parameters: %s is not of the form that the platform uses", p.name)
		}
		e.values[p.name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(e.file.Parameters)) {
		if !known[name] {
			e.bad("parameters: there is no %q", name)
		}
	}
}

// fill puts the parameters into a text.
func (e *expander) fill(text string) string {
	for _, p := range e.params {
		segment := ""
		if v := e.values[p.name]; v != "" {
			segment = "/" + v
		}
		text = strings.NewReplacer("{"+p.name+"}", e.values[p.name], "{/"+p.name+"}", segment).Replace(text)
	}
	return text
}

// allowances widens the preset by the dangers that the file names.
func (e *expander) allowances() {
	e.required = maps.Clone(e.required)
	for _, name := range e.file.Allow {
		a, known := e.allow[name]
		if !known {
			e.bad("allow: there is no %q; there is %s", name, listed(slices.Sorted(maps.Keys(e.allow))))
			continue
		}
		if len(a.values) > 0 {
			e.required[a.path] = slices.Concat(e.required[a.path], a.values)
			continue
		}
		delete(e.required, a.path)
		e.owners = slices.DeleteFunc(slices.Clone(e.owners), func(o owner) bool { return o.path == a.path })
	}
}

// claims sets what is required of claims and what becomes a selector.
func (e *expander) claims(c *Config) {
	c.Present, c.shape, c.unique, c.shared = e.present, shape(e.fill(e.shape)), e.unique, e.shared
	for _, path := range slices.Sorted(maps.Keys(e.required)) {
		var values []string
		for _, v := range e.required[path] {
			values = append(values, e.fill(v))
		}
		asked, narrowed := c.Required[path]
		if !narrowed {
			c.Required[path] = values
		}
		for _, v := range asked {
			if !slices.Contains(values, v) {
				e.bad("required %s: %q is not among what the preset accepts: %s%s", path, v, listed(values), e.allowed(path))
			}
		}
	}
	for _, o := range e.owners {
		values := c.Required[o.path]
		if len(values) == 0 {
			e.bad("required: name the values of %s, %s", o.path, o.what)
		}
		for _, v := range values {
			if !o.pattern.MatchString(v) {
				e.bad("required %s: %q is not what such a claim looks like: %s", o.path, v, o.what)
			}
		}
	}
	c.Selectors = map[string]string{}
	maps.Copy(c.Selectors, e.selectors)
	for _, name := range slices.Sorted(maps.Keys(e.file.Selectors)) {
		if _, taken := e.selectors[name]; taken || slices.Contains(shape(e.shape).names(), name) {
			e.bad("selectors %s: the preset has set this one; choose another name", name)
		}
		c.Selectors[name] = e.file.Selectors[name]
	}
}

// allowed says what in allow would widen the requirement of a path.
func (e *expander) allowed(path string) string {
	for _, name := range slices.Sorted(maps.Keys(e.allow)) {
		if e.allow[name].path == path {
			return "; see allow: [" + name + "] on the page"
		}
	}
	return ""
}

func (e *expander) audiences(c *Config) {
	if e.audience != "" {
		if c.Audience != "" && c.Audience != e.audience {
			e.bad("audience: the platform makes tokens for %s alone", e.audience)
		}
		c.Audience = e.audience
		return
	}
	for _, other := range slices.Concat(foreignAudiences, e.refused) {
		if other = e.fill(other); c.Audience == other || strings.HasPrefix(c.Audience, strings.TrimSuffix(other, "/")+"/") {
			e.bad("audience: tokens for %s are made for others; have tokens made for the URL of this ebb", other)
		}
	}
	if c.Audience == "" {
		e.bad("audience is empty; set it to the URL of this ebb and have tokens made for it")
	}
}

func (e *expander) limits(c *Config) {
	for _, a := range c.Algs {
		if !slices.Contains(e.algs, a) {
			e.bad("algs: the platform does not sign with %q", a)
		}
	}
	if len(c.Algs) == 0 {
		c.Algs = e.algs
	}
	c.MaxLifetime = cmp.Or(c.MaxLifetime, e.maxLifetime)
	if c.MaxLifetime > e.maxLifetime {
		e.bad("max_lifetime is more than the %s of the preset", e.maxLifetime)
	}
	if c.Leeway == nil { // 0 narrows
		c.Leeway = new(presetLeeway)
	}
	if *c.Leeway > presetLeeway {
		e.bad("leeway is more than the %s of the preset", presetLeeway)
	}
}

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
