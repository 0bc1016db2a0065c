package oidc

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// path is the list of member names that lead to a claim, outermost first.
type path []string

// shape is a pattern for a subject. Each segment between slashes is either literal
// text or a selector name in angle brackets that stands for any non-empty segment.
// The empty shape accepts every subject.
type shape string

const maxText = 2048

var (
	errAbsent   = errors.New("the claim is absent")
	errNoText   = errors.New("the claim is not a string, a boolean or an integer")
	errShape    = errors.New("the subject does not have the form of this platform")
	errNotPlain = errors.New("the claim has control characters or more than 2048 bytes")
)

// parsePath parses "a.b" or the JSON pointer "/a.x/b" (RFC 6901).
func parsePath(s string) (path, error) {
	var p path
	if rest, pointer := strings.CutPrefix(s, "/"); pointer {
		unescape := strings.NewReplacer("~1", "/", "~0", "~")
		for name := range strings.SplitSeq(rest, "/") {
			p = append(p, unescape.Replace(name))
		}
	} else {
		p = strings.Split(s, ".")
	}
	for _, name := range p {
		if name == "" {
			return nil, fmt.Errorf("the claim path %q has an empty name; write a.b, or /a.x/b when a name contains a dot", s)
		}
	}
	return p, nil
}

// text returns the claim at a path as text for comparison. Each accepted value has
// exactly one text. The error is errAbsent, errNoText or errNotPlain.
func (p path) text(c *jose.Claims) (string, error) {
	raw, found := c.Raw(p[0])
	v := jsontext.Value(raw)
	for _, name := range p[1:] {
		if !found || v.Kind() != jsontext.KindBeginObject {
			return "", errAbsent
		}
		var object map[string]jsontext.Value
		if err := json.Unmarshal(v, &object); err != nil {
			return "", errNoText
		}
		v, found = object[name]
	}
	if !found {
		return "", errAbsent
	}
	switch v.Kind() {
	case jsontext.KindString:
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return "", errNoText
		}
		if len(s) > maxText || !jose.Plain(s) {
			return "", errNotPlain
		}
		return s, nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return string(v), nil
	case jsontext.KindNumber:
		// 1e3 and 1000.0 are other spellings of 1000; they are rejected.
		if len(v) > 20 || strings.ContainsAny(string(v), ".eE") || string(v) == "-0" {
			return "", errNoText
		}
		return string(v), nil
	}
	return "", errNoText
}

// names returns the names in angle brackets.
func (s shape) names() []string {
	var names []string
	for segment := range strings.SplitSeq(string(s), "/") {
		if name, found := strings.CutPrefix(segment, "<"); found {
			names = append(names, strings.TrimSuffix(name, ">"))
		}
	}
	return names
}

// read adds to out the segment of the subject for each name of the shape. It returns
// errShape when the subject does not match; out is then incomplete.
func (s shape) read(subject string, out map[string]string) error {
	want, got := strings.Split(string(s), "/"), strings.Split(subject, "/")
	if len(want) != len(got) {
		return errShape
	}
	for i, segment := range want {
		name, named := strings.CutPrefix(segment, "<")
		switch {
		case !named && got[i] == segment:
		case named && got[i] != "":
			out[strings.TrimSuffix(name, ">")] = got[i]
		default:
			return errShape
		}
	}
	return nil
}

const presetLeeway = 30 * time.Second

// foreignAudiences are audiences of well-known services. Tokens for them are not meant
// for ebb, on any platform.
var foreignAudiences = []string{"sts.amazonaws.com", "sts.googleapis.com", "https://sts.googleapis.com", "//iam.googleapis.com",
	"https://iam.googleapis.com", "api://AzureADTokenExchange", "sigstore", "https://kubernetes.default.svc", "pypi", "vault"}

// expander applies a preset to the configuration of one instance and collects all
// problems.
type expander struct {
	preset
	file   fileConfig
	values map[string]string // of the parameters
	errs   []error
}

func (e *expander) bad(format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf(format, args...))
}

// expand completes c, which has the values of the file, from the file's preset. The
// values of the file may only narrow the preset.
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
		e.bad("tokens of this platform are bearer tokens: until a token expires, every service that received it can use it at ebb; set accept_bearer: true to accept that")
	case f.AcceptBearer && !e.bearer:
		e.bad("accept_bearer is for presets of bearer tokens; this platform has none, so leave it out")
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
			e.bad("%s is pinned by the preset and cannot be set; leave it out, or leave out preset and configure all members yourself", pinned.key)
		}
	}
	if e.file.Fetch.Private && !slices.ContainsFunc(e.params, func(p param) bool { return p.host }) {
		e.bad("allow_private_addresses: the keys of this platform are on the public internet; leave it out")
	}
}

// parameters checks the values of the preset's parameters and keeps them in e.values.
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
			e.bad("parameters: %s is missing; the preset needs it", p.name)
		}
		if (set || v != "") && (!p.pattern.MatchString(v) || strings.Contains(v, "..")) {
			shown := strconv.Quote(v)
			if strings.Contains(v, "@") {
				shown = "the value, not shown because it may contain a password,"
			}
			e.bad("parameters: %s: %s does not have the form that the platform uses", p.name, shown)
		}
		e.values[p.name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(e.file.Parameters)) {
		if !known[name] {
			e.bad("parameters: there is no %q in this preset; leave it out", name)
		}
	}
}

// fill replaces {name} and {/name} in a text with the values of the parameters.
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

// allowances widens the preset by the exceptions that the file lists in allow.
func (e *expander) allowances() {
	e.required = maps.Clone(e.required)
	for _, name := range e.file.Allow {
		a, known := e.allow[name]
		if !known {
			e.bad("allow: there is no %q; the preset has %s", name, listed(slices.Sorted(maps.Keys(e.allow))))
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

// claims sets the required claims and the selectors of c.
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
				e.bad("required %s: the preset does not accept %q; it accepts %s%s", path, v, listed(values), e.allowed(path))
			}
		}
	}
	for _, o := range e.owners {
		values := c.Required[o.path]
		if len(values) == 0 {
			e.bad("required: list the accepted values of %s: %s", o.path, o.what)
		}
		for _, v := range values {
			if !o.pattern.MatchString(v) {
				e.bad("required %s: %q does not have the form of this claim; list %s", o.path, v, o.what)
			}
		}
	}
	c.Selectors = map[string]string{}
	maps.Copy(c.Selectors, e.selectors)
	for _, name := range slices.Sorted(maps.Keys(e.file.Selectors)) {
		if _, taken := e.selectors[name]; taken || slices.Contains(shape(e.shape).names(), name) {
			e.bad("selectors %s: the preset already defines it; choose another name", name)
		}
		c.Selectors[name] = e.file.Selectors[name]
	}
}

// allowed returns a hint about the exception that would widen the requirement of a
// path, "" when there is none.
func (e *expander) allowed(path string) string {
	for _, name := range slices.Sorted(maps.Keys(e.allow)) {
		if e.allow[name].path == path {
			return "; docs/attestors/oidc.md describes the exception allow: [" + name + "]"
		}
	}
	return ""
}

// audiences sets the audience of c. It refuses audiences of services other than ebb.
func (e *expander) audiences(c *Config) {
	if e.audience != "" {
		if c.Audience != "" && c.Audience != e.audience {
			e.bad("audience: tokens of the platform always have the audience %s; leave audience out", e.audience)
		}
		c.Audience = e.audience
		return
	}
	for _, other := range slices.Concat(foreignAudiences, e.refused) {
		if other = e.fill(other); c.Audience == other || strings.HasPrefix(c.Audience, strings.TrimSuffix(other, "/")+"/") {
			e.bad("audience: tokens for %s are meant for another service; use the URL of this ebb and request tokens for it", other)
		}
	}
	if c.Audience == "" {
		e.bad("audience is empty; set it to the URL of this ebb and have tokens made for it")
	}
}

// limits sets the algorithms, the lifetime and the leeway of c.
func (e *expander) limits(c *Config) {
	for _, a := range c.Algs {
		if !slices.Contains(e.algs, a) {
			e.bad("algs: the platform does not sign with %q; leave algs out for those of the preset", a)
		}
	}
	if len(c.Algs) == 0 {
		c.Algs = e.algs
	}
	c.MaxLifetime = cmp.Or(c.MaxLifetime, e.maxLifetime)
	if c.MaxLifetime > e.maxLifetime {
		e.bad("max_lifetime is %s, more than the %s of the preset", c.MaxLifetime, e.maxLifetime)
	}
	if c.Leeway == nil { // an explicit 0 is stricter than the preset and is kept
		c.Leeway = new(presetLeeway)
	}
	if *c.Leeway > presetLeeway {
		e.bad("leeway is %s, more than the %s of the preset", *c.Leeway, presetLeeway)
	}
}

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
