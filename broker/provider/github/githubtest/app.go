package githubtest

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// asApp lets a JWT of the App in, and nothing else.
func (s *Server) asApp(do func(request) reply) func(request) reply {
	return func(r request) reply {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return say(http.StatusUnauthorized, undecodable)
		}
		if why := s.app.judge(token, s.clock()); why != "" {
			return say(http.StatusUnauthorized, why)
		}
		if s.app.Deleted {
			return say(http.StatusNotFound, "Integration not found")
		}
		return do(r)
	}
}

const undecodable = "A JSON web token could not be decoded"

// judge is what GitHub makes of a JWT: "" or why not.
func (a *App) judge(token string, now time.Time) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return undecodable
	}
	var raw [3][]byte
	for i, p := range parts {
		b, err := base64.RawURLEncoding.DecodeString(p)
		if err != nil {
			return undecodable
		}
		raw[i] = b
	}
	var head struct {
		Alg string `json:"alg"`
	}
	var claims struct {
		Issuer   json.RawMessage `json:"iss"`
		IssuedAt *int64          `json:"iat"`
		Expiry   *int64          `json:"exp"`
	}
	if json.Unmarshal(raw[0], &head) != nil || head.Alg != "RS256" || json.Unmarshal(raw[1], &claims) != nil {
		return undecodable
	}
	issuer := string(bytes.Trim(claims.Issuer, `"`))
	if issuer != a.ClientID && issuer != strconv.FormatInt(a.ID, 10) {
		return "'Issuer' claim ('iss') must be an Integer"
	}
	if !a.signed(parts[0]+"."+parts[1], raw[2]) {
		return undecodable
	}
	switch {
	case claims.IssuedAt == nil || time.Unix(*claims.IssuedAt, 0).After(now):
		return "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
	case claims.Expiry == nil || !time.Unix(*claims.Expiry, 0).After(now):
		return "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires"
	case time.Unix(*claims.Expiry, 0).After(now.Add(10 * time.Minute)):
		return "'Expiration time' claim ('exp') is too far in the future"
	}
	return ""
}

func (a *App) signed(input string, sig []byte) bool {
	sum := sha256.Sum256([]byte(input))
	for _, k := range a.Keys {
		if rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], sig) == nil {
			return true
		}
	}
	return false
}

func (s *Server) getApp(request) reply {
	body := example("integration")
	body["id"], body["slug"], body["client_id"] = s.app.ID, s.app.Slug, s.app.ClientID
	return reply{status: http.StatusOK, body: body}
}

func (s *Server) listInstallations(request) reply {
	out := []any{}
	for _, in := range s.places {
		out = append(out, s.app.installation(in, s.clock()))
	}
	return reply{status: http.StatusOK, body: out}
}

// Uninstall removes the App from an owner.
func (s *Server) Uninstall(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.places, id)
}

// installations are those of the App, by id.
type installations map[int64]*Installation

// place is the installation that the path names, or nil.
func (all installations) place(r request) *Installation {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return nil
	}
	return all[id]
}

func (s *Server) getInstallation(r request) reply {
	if in := s.places.place(r); in != nil {
		return reply{status: http.StatusOK, body: s.app.installation(in, s.clock())}
	}
	return say(http.StatusNotFound, "Not Found")
}

func (s *Server) suspend(r request) reply {
	in := s.places.place(r)
	if in == nil {
		return say(http.StatusNotFound, "Not Found")
	}
	in.Suspended = r.Method == http.MethodPut
	return reply{status: http.StatusNoContent}
}

func (s *Server) installationOf(r request) reply {
	repo := s.repos.named(r.PathValue("owner"), r.PathValue("repo"))
	for _, in := range s.places {
		if repo != nil && in.reaches(repo) {
			return reply{status: http.StatusOK, body: s.app.installation(in, s.clock())}
		}
	}
	return say(http.StatusNotFound, "Not Found")
}

func (a *App) installation(in *Installation, now time.Time) map[string]any {
	body := example("installation")
	// The description of the list wants an account that is a user and an enterprise
	// at once, and that of a single one takes it.
	account := example("enterprise")
	maps.Copy(account, example("simple-user"))
	account["login"] = in.Owner
	body["id"], body["account"], body["permissions"] = in.ID, account, in.Permissions
	body["app_id"], body["client_id"], body["repository_selection"] = a.ID, a.ClientID, "selected"
	body["suspended_at"], body["suspended_by"] = nil, nil
	if in.Suspended {
		body["suspended_at"], body["suspended_by"] = now.UTC().Format(time.RFC3339), account
	}
	return body
}
