package awskeys

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/web/client"
)

// ErrOther is returned for a credential that is not one of a provider of kind
// aws.
var ErrOther = errors.New("the credential is not one for AWS")

// format is the issued_token_type of a document for credential_process.
const format = "urn:ebb:token-type:aws"

// stays is the secret key of a placeholder. It is no secret: egress signs each
// request again.
const stays = "stays-in-ebb"

// Keys is an access key, as in the output of credential_process of the AWS CLI.
type Keys struct {
	ID      string    `json:"AccessKeyId"`
	Secret  string    `json:"SecretAccessKey"`
	Session string    `json:"SessionToken"` // "" for a placeholder
	Expires time.Time `json:"Expiration"`
}

// Of converts a credential to an access key: a session, or a placeholder for
// one. The signature that a client makes with a placeholder only identifies the
// lease.
func Of(cred client.Credential) (Keys, error) {
	switch cred.Format {
	case provider.PlaceholderFormat:
		return Keys{ID: cred.Token.Reveal(), Secret: stays, Expires: cred.ExpiresAt.UTC()}, nil
	case format:
		var k Keys
		if err := json.Unmarshal([]byte(cred.Token.Reveal()), &k); err != nil || k.ID == "" || k.Secret == "" {
			return Keys{}, errors.New("ebb's credential is not a valid AWS session document") // err may contain parts of it
		}
		return k, nil
	}
	return Keys{}, ErrOther
}

// Process returns the output of a program that AWS clients start as
// credential_process.
func (k Keys) Process() any {
	return struct {
		Version                      int
		AccessKeyId, SecretAccessKey string //nolint:revive,staticcheck // AWS's spelling
		SessionToken                 string `json:",omitempty"`
		Expiration                   string
	}{1, k.ID, k.Secret, k.Session, k.Expires.Format(time.RFC3339)}
}

// container returns the response of the container credentials endpoint. SDKs
// require all four members.
func (k Keys) container() any {
	return struct{ AccessKeyId, SecretAccessKey, Token, Expiration string }{k.ID, k.Secret, k.Session, k.Expires.Format(time.RFC3339)} //nolint:revive,staticcheck // AWS's spelling
}
