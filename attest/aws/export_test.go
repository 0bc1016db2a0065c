package aws

import (
	"github.com/ebb-broker/ebb/attest"
)

// The parsers of untrusted bytes, for fuzz tests.
func ReadShown(doc []byte) error { _, err := readShown(doc); return err }

func ReadAuthorization(text string) (string, error) {
	a, err := readAuthorization(text)
	return a.String(), err
}

func ReadAnswer(status int, body []byte, partition string) (attest.Identity, error) {
	c, err := readAnswer(status, body)
	if err != nil {
		return attest.Identity{}, err
	}
	p, err := c.parse(partition)
	if err != nil {
		return attest.Identity{}, err
	}
	return attest.Identity{Subject: p.UserID, Selectors: p.selectors("eu-west-1", nil)}, nil
}
