package awskeys

import (
	"encoding/json"
	"errors"
	"time"

	"ebb/broker/provider"
	"ebb/web/client"
)

// ErrOther is the error of a credential that is none of AWS.
var ErrOther = errors.New("the credential is none of AWS")

// format is the issued_token_type of a document for credential_process.
const format = "urn:ebb:token-type:aws"

// stays is the secret of a key that is a placeholder: egress signs anew.
const stays = "stays-in-ebb"

// Keys are an access key, as credential_process(AWS CLI) has it.
type Keys struct {
	ID      string    `json:"AccessKeyId"`
	Secret  string    `json:"SecretAccessKey"`
	Session string    `json:"SessionToken"` // "" = a placeholder, which has none
	Expires time.Time `json:"Expiration"`
}

// Of is a credential as an access key: a session, or a placeholder for one. What a client signs
// with a placeholder says only which lease it means.
func Of(cred client.Credential) (Keys, error) {
	switch cred.Format {
	case provider.PlaceholderFormat:
		return Keys{ID: cred.Token.Reveal(), Secret: stays, Expires: cred.ExpiresAt.UTC()}, nil
	case format:
		var k Keys
		if err := json.Unmarshal([]byte(cred.Token.Reveal()), &k); err != nil || k.ID == "" || k.Secret == "" {
			return Keys{}, errors.New("ebb's session is not in the form that AWS's clients read") // err can hold parts of it
		}
		return k, nil
	}
	return Keys{}, ErrOther
}

// Process is what a program says that is started as credential_process.
func (k Keys) Process() any {
	return struct {
		Version                      int
		AccessKeyId, SecretAccessKey string //nolint:revive,staticcheck // AWS's spelling
		SessionToken                 string `json:",omitempty"`
		Expiration                   string
	}{1, k.ID, k.Secret, k.Session, k.Expires.Format(time.RFC3339)}
}

// container is what the endpoint of container credentials says. SDKs want all four.
func (k Keys) container() any {
	return struct{ AccessKeyId, SecretAccessKey, Token, Expiration string }{k.ID, k.Secret, k.Session, k.Expires.Format(time.RFC3339)} //nolint:revive,staticcheck // AWS's spelling
}
