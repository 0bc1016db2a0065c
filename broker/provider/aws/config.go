package aws

import (
	"log/slog"
	"time"
)

// Config is the config part of a provider of this kind.
type Config struct {
	Name   string           `json:"-"` // of the provider: the first part of its scopes
	Now    func() time.Time `json:"-"` // nil = time.Now
	Logger *slog.Logger     `json:"-"` // nil = none

	// Flavor is who answers: aws (default), rgw or minio.
	Flavor string `json:"flavor,omitempty"`
	// Region of the STS endpoint; required.
	Region string `json:"region"`
	// Endpoint replaces AWS's own for STS and IAM; https, or http on loopback.
	// Required for rgw and minio.
	Endpoint string `json:"endpoint,omitempty"`
	// CAFile is a PEM file of authorities to trust for it; "" = the system's.
	CAFile string `json:"ca_file,omitempty"`
	// AccessKeyFile and SecretKeyFile hold ebb's own key; both "" = what AWS's
	// SDKs look for: environment, profile, web identity, container, instance.
	AccessKeyFile string `json:"access_key_file,omitempty"`
	SecretKeyFile string `json:"secret_key_file,omitempty"`
	// Timeout of one attempt of a call, of which there are up to three; "" = 5s.
	Timeout string `json:"timeout,omitempty"`

	// Roles say which role serves which scopes; the first that covers all wins.
	Roles []Role `json:"roles"`
	// Areas are parts of buckets with rules of their own.
	Areas []Area `json:"areas,omitempty"`
	// Statements are actions of other services.
	Statements []Statement `json:"statements,omitempty"`

	// ExternalID is sent with every AssumeRole (2 to 1,224 characters).
	ExternalID string `json:"external_id,omitempty"`
	// SourceIdentity sets the STS source identity to the session's name and revokes by it, which
	// also denies sessions that were chained from this one. nil means true for aws and false for
	// other flavors, which do not enforce it.
	SourceIdentity *bool `json:"source_identity,omitempty"`
	// SessionTags sends ebb-task, ebb-sandbox and ebb-lease. nil = as above.
	SessionTags *bool `json:"session_tags,omitempty"`
	// SourceIPs (CIDR) or SourceVPCEs (vpce-...) are where sessions can be used
	// from; one of the two, since no request has both.
	SourceIPs   []string `json:"source_ips,omitempty"`
	SourceVPCEs []string `json:"source_vpces,omitempty"`

	// Revoke is deny (default), or none when ebb may not write the roles' inline
	// policies: then sessions end by time alone.
	Revoke string `json:"revoke,omitempty"`
	// RevokeBound is after how long a deny is taken to hold everywhere; "" = 60s.
	RevokeBound string `json:"revoke_bound,omitempty"`
}

// Role is a pool of roles that may all do the same.
type Role struct {
	Scopes []string `json:"scopes"` // patterns: "s3:data/**:read"
	ARNs   []string `json:"arns"`   // 1 to 16; leases are spread over them
	// MaxSession is at most the role's own maximum; "" = 1h.
	MaxSession string `json:"max_session,omitempty"`
}

// Area is a part of a bucket in which only the listed actions are possible, at any policy:
// read-only inputs, a write-only quarantine, or a final place that objects are only promoted to.
type Area struct {
	Prefix  string   `json:"prefix"`         // "data/quarantine": everything below it
	Actions []string `json:"actions"`        // of read, write, list, delete, promote
	From    string   `json:"from,omitempty"` // where promote copies from; required with it
}

// Statement is one action of another service. In On and in the values of When,
// {1} to {16} stand for the segments of the scope's resource and {rest} for what
// ** matched; nothing in them can be a wildcard or a policy variable.
type Statement struct {
	Action   string                         `json:"action"`         // of the scope: "query"
	Resource string                         `json:"resource"`       // of the scope: "tables/*"
	Allow    []string                       `json:"allow"`          // "dynamodb:Query"
	On       []string                       `json:"on"`             // "arn:aws:dynamodb:eu-central-1:111122223333:table/{2}"
	When     map[string]map[string][]string `json:"when,omitempty"` // operator to key to values, as in IAM
}
