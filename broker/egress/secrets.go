package egress

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ebb/broker"
	"ebb/broker/clientcert"
	"ebb/broker/egress/redact"
)

// lookFor has what was added, and the key of what is shown, looked for in the answer.
func (s *sending) lookFor(use broker.Usable, before, after *http.Request, shown *clientcert.Certificate) error {
	if use.Bare {
		return nil
	}
	secrets, err := secretsOf(before, after)
	for _, piece := range shown.Secrets() {
		if len(piece) >= redact.MinSecret {
			secrets = append(secrets, piece)
		}
	}
	if err == nil {
		s.redactor, err = s.b.p.redactors.take(s.ctx, s.b.who, s.leaseID, secrets)
	}
	if _, denied := errors.AsType[*Denial](err); err == nil || denied || s.ctx.Err() != nil {
		return err
	}
	return deny(Doubt, err)
}

// signed are headers that say how a request is signed for AWS. No secret is in them, and the
// signature is good for this request alone.
var signed = []string{"Authorization", "X-Amz-Date", "X-Amz-Content-Sha256"}

// schemes are those that may stand alone before a secret. Another first word may be a part of
// it, as the first pair of a Cookie is.
var schemes = []string{"bearer", "basic", "token", "dpop", "apikey"}

// secretsOf is what an injector added: values of headers, in Basic its two parts, and
// values of parameters.
func secretsOf(before, after *http.Request) ([]string, error) {
	aws := strings.HasPrefix(after.Header.Get("Authorization"), awsScheme+" ")
	var secrets []string
	add := func(s string) {
		if len(s) >= redact.MinSecret {
			secrets = append(secrets, s)
		}
	}
	for name, values := range after.Header {
		for _, v := range values {
			if slices.Contains(before.Header[name], v) || aws && slices.Contains(signed, name) {
				continue
			}
			scheme, rest, two := strings.Cut(v, " ")
			if two {
				add(rest)
			}
			if !two || !slices.Contains(schemes, strings.ToLower(scheme)) {
				add(v)
				continue
			}
			if raw, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "Basic") {
				user, password, _ := strings.Cut(string(raw), ":")
				add(user)
				add(password)
			}
		}
	}
	had, err1 := url.ParseQuery(before.URL.RawQuery)
	has, err2 := url.ParseQuery(after.URL.RawQuery)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for name, values := range has {
		for _, v := range values {
			if !slices.Contains(had[name], v) {
				add(v)
			}
		}
	}
	return secrets, nil
}
