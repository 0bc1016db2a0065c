package kms

import (
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/awsapi"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Config of this kind.
type Config struct {
	// Instance names this installation; part of the encryption context.
	Instance string           `json:"-"`
	Now      func() time.Time `json:"-"` // nil = time.Now

	// Key is the ARN of a symmetric encryption key. An alias is refused, because it can be pointed
	// to another key. ebb calls KMS in the ARN's region.
	Key string `json:"key"`
	// Previous are ARNs of earlier keys: data keys wrapped by them open, and are then wrapped by
	// Key.
	Previous []string `json:"previous,omitempty"`
	// Endpoint replaces AWS's endpoint, for a VPC endpoint with its own name; https, or http on
	// loopback.
	Endpoint string `json:"endpoint,omitempty"`
	// CAFile is a PEM file of certificate authorities to trust for it; "" = the system's.
	CAFile string `json:"ca_file,omitempty"`
	// AccessKeyFile and SecretKeyFile hold ebb's own access key; both "" = the sources of AWS's
	// SDKs: environment, profile, web identity, container, instance.
	AccessKeyFile string `json:"access_key_file,omitempty"`
	SecretKeyFile string `json:"secret_key_file,omitempty"`
	// Timeout of one attempt; a call makes up to three attempts; "" = 5s.
	Timeout string `json:"timeout,omitempty"`
}

// maxPrevious is far above practical numbers.
const maxPrevious = 16

var (
	arnForm      = lazyregexp.New(`^arn:aws[a-z-]{0,16}:kms:([a-z0-9-]{2,32}):[0-9]{12}:key/((?:mrk-[0-9a-f]{32})|(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))$`)
	instanceForm = lazyregexp.New(`^[0-9a-f]{8}$`)
)

// names parses the ARNs of the keys; the first key wraps.
func (c Config) names() (arns []name, err error) {
	if len(c.Previous) > maxPrevious {
		return nil, fmt.Errorf("previous: name at most %d keys", maxPrevious)
	}
	seen := map[string]bool{}
	for i, arn := range append([]string{c.Key}, c.Previous...) {
		m := arnForm.FindStringSubmatch(arn)
		switch {
		case m == nil && i == 0:
			err = errors.Join(err, fmt.Errorf("key: %q is not the ARN of a key, like arn:aws:kms:eu-central-1:111122223333:key/1234abcd-...; an alias can be pointed elsewhere", arn))
		case m == nil:
			err = errors.Join(err, fmt.Errorf("previous: %q is not the ARN of a key", arn))
		case seen[m[2]]:
			err = errors.Join(err, fmt.Errorf("previous: the key %s is named twice: replicas of a multi-Region key are one key", m[2]))
		default:
			seen[m[2]] = true
			arns = append(arns, name{arn: arn, region: m[1], id: m[2]})
		}
	}
	return arns, err
}

// name is the location of a key.
type name struct{ arn, region, id string }

func (c Config) api() (awsapi.Config, error) {
	var err error
	a := awsapi.Config{Endpoint: c.Endpoint, Timeout: 5 * time.Second, AccessKeyFile: c.AccessKeyFile, SecretKeyFile: c.SecretKeyFile}
	if c.Endpoint != "" && !awsapi.SafeEndpoint(c.Endpoint) {
		err = errors.Join(err, errors.New("endpoint: must be an https URL without a path, or http on loopback"))
	}
	if (c.AccessKeyFile == "") != (c.SecretKeyFile == "") {
		err = errors.Join(err, errors.New("access_key_file and secret_key_file: set both or neither"))
	}
	roots, e := provider.Roots(c.CAFile)
	if e != nil {
		err = errors.Join(err, fmt.Errorf("ca_file: %w", e))
	}
	a.Roots = roots
	if c.Timeout != "" {
		if a.Timeout, e = time.ParseDuration(c.Timeout); e != nil || a.Timeout < 100*time.Millisecond || a.Timeout > time.Minute {
			err = errors.Join(err, fmt.Errorf("timeout: %q is not a duration from 100ms to 1m", c.Timeout))
		}
	}
	if !instanceForm.MatchString(c.Instance) {
		err = errors.Join(err, fmt.Errorf("instance: %q is not 8 hex digits", c.Instance))
	}
	return a, err
}
