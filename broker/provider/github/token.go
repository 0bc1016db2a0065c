package github

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// minted has the members of GitHub's schema installation-token that are used.
type minted struct {
	Token        string            `json:"token"`
	ExpiresAt    string            `json:"expires_at"`
	Permissions  map[string]string `json:"permissions"`
	Selection    string            `json:"repository_selection"`
	Repositories []struct {
		ID   int64  `json:"id"`
		Name string `json:"full_name"`
	} `json:"repositories"`

	expires time.Time
	wrong   error // the first undocumented property of the rest
}

// parseMinted parses a 201 response
// (https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app). An
// error means that the response has no token that could be used or revoked. Other defects are kept
// in the result, so that the token can be revoked first. The parser is strict, because
// encoding/json also accepts members in another case and the last of two equal members.
func parseMinted(b []byte) (minted, error) {
	var only struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(b, &only); err != nil {
		return minted{}, errors.New("the response is not the JSON that GitHub documents")
	}
	if !acceptable(only.Token) {
		return minted{}, errors.New("the response has no token that a header can contain")
	}
	m := minted{}
	if err := json.Unmarshal(b, &m); err != nil {
		return minted{Token: only.Token, wrong: errors.New("the response does not have the form that GitHub documents")}, nil
	}
	t, err := time.Parse(time.RFC3339, m.ExpiresAt)
	if err != nil {
		m.wrong = errors.New("the response does not state when the token expires")
	}
	m.expires = t.UTC()
	return m, nil
}

// differs compares the minted token with the request and returns the first difference, or nil.
// GitHub adds metadata:read to every token of a repository; any other addition is a difference.
// ids are the ids of a.repositories by name, or nil if only the names are known.
func (m minted) differs(a ask, ids map[string]int64) error {
	if m.wrong != nil {
		return m.wrong
	}
	got := m.Permissions
	if _, asked := a.permissions[metadata]; !asked && got[metadata] == readLevel {
		got = maps.Clone(got)
		delete(got, metadata)
	}
	if !maps.Equal(got, a.permissions) {
		return fmt.Errorf("the token has the permissions %s, and %s were requested", show(m.Permissions), show(a.permissions))
	}
	if m.Selection != "selected" {
		return fmt.Errorf("the token is for %.20q repositories, and selected ones were requested", m.Selection)
	}
	names := make([]string, 0, len(m.Repositories))
	for _, r := range m.Repositories {
		if ids != nil && r.ID != ids[r.Name] {
			return fmt.Errorf("repository %d has the name %.200q now, which differs from the one in the scope or the configuration", r.ID, r.Name)
		}
		names = append(names, r.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, a.repositories) {
		return fmt.Errorf("the token is for %d repositories (%.200q), and %d were requested", len(names), strings.Join(names, " "), len(a.repositories))
	}
	return nil
}

// lives returns bounds of a token's expiry by ebb's clock, because GitHub's clock may
// differ. It returns an error when there is no expiry, or one later than GitHub documents.
func (m minted) lives(ans answer) (until, dies time.Time, err error) {
	if m.wrong != nil {
		return until, dies, m.wrong
	}
	ours := ans.at.Add(m.expires.Sub(ans.theirs()))
	until, dies = m.expires, ours
	if ours.Before(until) {
		until, dies = ours, m.expires
	}
	if !until.After(ans.at) || dies.Sub(ans.at) > lifetime+room {
		return until, dies, fmt.Errorf("the token would expire at %s, and it is %s here: GitHub documents an hour, so one of the clocks is wrong",
			m.expires.Format(time.RFC3339), ans.at.UTC().Format(time.RFC3339))
	}
	return until, dies, nil
}

// show formats permissions for a log.
func show(p map[string]string) string {
	out := make([]string, 0, len(p))
	for _, name := range slices.Sorted(maps.Keys(p)) {
		out = append(out, fmt.Sprintf("%.64q:%.16q", name, p[name]))
	}
	if len(out) == 0 {
		return "(none)"
	}
	return strings.Join(out, " ")
}

// A handle is the token itself, because GitHub revokes a token only for its holder. A value with a
// colon is a note in place of a token.
const (
	// handleAsked means that GitHub was called and the response is unknown. If a token exists, no
	// party holds it, and it lives until its expiry.
	handleAsked = "asked:"
	// handleNothing means that certainly no token was made.
	handleNothing = "nothing:"
)

// lifetime is GitHub's lifetime of every installation token. It cannot be changed.
const lifetime = time.Hour

// room is the tolerance for a longer lifetime, because clocks differ.
const room = 5 * time.Minute

// tokenOf returns the token of a lease. Without a token, dead reports whether certainly none
// is valid, and err is the reason when that is uncertain.
func tokenOf(t provider.Target) (token secret.Secret, dead bool, err error) {
	switch {
	// No handle: GitHub was not called, because handleAsked is saved before.
	case t.Handle.Empty(), t.Handle.Equal(secret.New(handleNothing)):
		return secret.Secret{}, true, nil
	case t.Handle.Equal(secret.New(handleAsked)):
		// At any time: only the broker knows when such a token has expired, not GitHub.
		return secret.Secret{}, false, fmt.Errorf("github: %w: the response was lost, so the token that GitHub may have made is unknown", provider.ErrLost)
	}
	return t.Handle, false, nil
}

// acceptable reports whether s can be a token: a b64token of RFC 6750, of a length that a header can
// contain. Its form is otherwise not assumed.
func acceptable(s string) bool { return len(s) <= 8<<10 && jose.IsToken68(s) }

// stateless reports whether a token has the format with a JWT, which contains dots; opaque
// tokens do not.
func stateless(token string) bool { return strings.Contains(token, ".") }
