package notify

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ebb-broker/ebb/broker/secret"
)

// Key names a secret of a channel: a file (mode 0600) or an environment variable. The
// configuration never holds the secret itself.
type Key struct {
	File     string `json:"file"`
	Variable string `json:"variable"`
}

// Set reports whether k names a secret.
func (k Key) Set() bool { return k.File != "" || k.Variable != "" }

// Read returns the secret. look is os.LookupEnv.
func (k Key) Read(look func(string) (string, bool)) (secret.Secret, error) {
	switch {
	case k.File != "" && k.Variable != "":
		return secret.Secret{}, errors.New("a secret is named by both file and variable: set only one")
	case k.File != "":
		return secret.Read(k.File)
	case k.Variable != "":
		text, set := look(k.Variable)
		if text = strings.TrimRight(text, "\r\n"); !set || text == "" {
			return secret.Secret{}, fmt.Errorf("the variable %s is not set", k.Variable)
		}
		return secret.New(text), nil
	}
	return secret.Secret{}, errors.New("a secret is missing: name its file or its variable")
}
