package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// maxToken is far above any token of a service account, and fits into a header.
const maxToken = 16 << 10

// claims are those of a service account's token that ebb looks at. The signature
// is the API server's business: the token came from there, over its own connection.
type claims struct {
	Subject    string   `json:"sub"`
	Audience   []string `json:"aud"`
	Expiry     int64    `json:"exp"`
	Kubernetes struct {
		Namespace      string    `json:"namespace"`
		ServiceAccount claimsRef `json:"serviceaccount"`
		Secret         claimsRef `json:"secret"`
	} `json:"kubernetes.io"`
}

type claimsRef struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// readClaims reads the middle of a compact JWS.
func readClaims(token string) (c claims, err error) {
	bad := errors.New("kubernetes: the answer's token is none of a service account")
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return c, bad
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, &c) != nil {
		return c, bad // their texts can hold parts of it
	}
	return c, nil
}

// maxExpiry keeps time arithmetic in its range: the year 9999.
const maxExpiry = 253402300799

// accept looks whether a token is of the account, for exactly the audiences, and
// hangs on the Secret: one that does not could not be taken back. It gives the
// token's exp, which status.expirationTimestamp may be before.
func accept(token string, acc Account, audiences []string, secret, uid string) (time.Time, error) {
	c, err := readClaims(token)
	if err != nil {
		return time.Time{}, err
	}
	k := c.Kubernetes
	switch {
	case c.Subject != "system:serviceaccount:"+acc.Namespace+":"+acc.ServiceAccount || k.Namespace != acc.Namespace || k.ServiceAccount.Name != acc.ServiceAccount:
		return time.Time{}, errors.New("kubernetes: the token is of another service account")
	case k.Secret.Name != secret || k.Secret.UID != uid:
		return time.Time{}, errors.New("kubernetes: the token does not hang on the Secret of its lease, and could not be taken back")
	case len(audiences) == 0 || !slices.Equal(slices.Sorted(slices.Values(c.Audience)), slices.Sorted(slices.Values(audiences))):
		return time.Time{}, errors.New("kubernetes: the token is for other audiences than were asked for")
	case c.Expiry <= 0 || c.Expiry > maxExpiry:
		return time.Time{}, errors.New("kubernetes: the token has no end")
	}
	return time.Unix(c.Expiry, 0), nil
}
