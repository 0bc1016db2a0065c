package github

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// minted is the part of GitHub's schema installation-token that counts here.
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
	wrong   error // what is not as documented in the rest
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
		return minted{}, errors.New("the answer is not the JSON that GitHub documents")
	}
	if !acceptable(only.Token) {
		return minted{}, errors.New("the answer holds no token that fits into a header")
	}
	m := minted{}
	if err := json.Unmarshal(b, &m); err != nil {
		return minted{Token: only.Token, wrong: errors.New("the answer is not of the form that GitHub documents")}, nil
	}
	t, err := time.Parse(time.RFC3339, m.ExpiresAt)
	if err != nil {
		m.wrong = errors.New("the answer does not say when the token expires")
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
		return fmt.Errorf("the token has the permissions %s, and %s were asked for", show(m.Permissions), show(a.permissions))
	}
	if m.Selection != "selected" {
		return fmt.Errorf("the token is for %.20q repositories, and selected ones were asked for", m.Selection)
	}
	names := make([]string, 0, len(m.Repositories))
	for _, r := range m.Repositories {
		if ids != nil && r.ID != ids[r.Name] {
			return fmt.Errorf("repository %d is called %.200q now, and not what the scope or the configuration calls it", r.ID, r.Name)
		}
		names = append(names, r.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, a.repositories) {
		return fmt.Errorf("the token is for %d repositories (%.200q), and %d were asked for", len(names), strings.Join(names, " "), len(a.repositories))
	}
	return nil
}

// lives bounds the life of a token from both sides, on our clock: GitHub's clock
// may differ from it. It is an error when there is none, or more of it than GitHub
// documents.
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

// show prints permissions for a log.
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
	// handleNothing: it is certain that nothing was made.
	handleNothing = "nothing:"
)

// lifetime is how long GitHub lets every installation token live. There is no
// parameter for it.
const lifetime = time.Hour

// room is by how much more than that a token may seem to live, for clocks that differ.
const room = 5 * time.Minute

// tokenOf is the token of a lease. Without one, dead says whether it is certain
// that there is none that lives, and err why not.
func tokenOf(t provider.Target) (token secret.Secret, dead bool, err error) {
	switch {
	// No handle: GitHub was not asked, for handleAsked is saved before.
	case t.Handle.Empty(), t.Handle.Equal(secret.New(handleNothing)):
		return secret.Secret{}, true, nil
	case t.Handle.Equal(secret.New(handleAsked)):
		// However late it is: that it is over by then is the broker's to say, not GitHub's.
		return secret.Secret{}, false, fmt.Errorf("github: %w: nobody has what GitHub may have made", provider.ErrLost)
	}
	return t.Handle, false, nil
}

// acceptable reports whether s can be a token: RFC 6750's b64token, of a length
// that fits into a header. Nothing else is assumed of its form.
func acceptable(s string) bool {
	if len(s) == 0 || len(s) > 8<<10 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-._~+/=", r)
	}) < 0
}

// stateless reports whether a token is of the format that holds a JWT: those have
// dots, opaque ones have none.
func stateless(token string) bool { return strings.Contains(token, ".") }
