package kubernetes

import (
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/secret"
)

// The files of the service account that the kubelet mounts in every pod.
const (
	inClusterDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	maxRoots     = 1 << 20
)

// inCluster fills in the values that a pod has by default, but only when all of them
// are absent: the token of one cluster must not be sent to the server of another.
func (c *Config) inCluster(bad func(string, ...any)) {
	if c.Server != "" {
		if c.TokenFile == "" {
			bad("token_file is missing; name the file with ebb's own token for the API server in server")
		}
		return
	}
	if c.TokenFile != "" || c.CAFile != "" {
		bad("server is missing; name the API server that token_file and ca_file are for, or leave out all three when ebb runs in the cluster")
		return
	}
	getenv := c.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		bad("server is missing, and ebb does not run in a pod; set server, ca_file and token_file")
		return
	}
	c.Server = "https://" + net.JoinHostPort(host, port)
	c.TokenFile, c.CAFile = filepath.Join(inClusterDir, "token"), filepath.Join(inClusterDir, "ca.crt")
}

// readLogin reads ebb's own token. It is called for each request, because the kubelet
// replaces the token after 80% of its lifetime.
func readLogin(path string) (string, error) {
	s, err := secret.Read(path)
	if err != nil {
		return "", fmt.Errorf("reading ebb's login: %w", err)
	}
	text := strings.TrimRight(s.Reveal(), "\r\n")
	if text == "" {
		return "", fmt.Errorf("reading ebb's login: %s contains only line ends: write the token into it", path)
	}
	for i := 0; i < len(text); i++ {
		if text[i] <= ' ' || text[i] > '~' {
			return "", fmt.Errorf("reading ebb's login: %s does not contain exactly one token", path)
		}
	}
	return text, nil
}

// roots returns the certificates in CAFile, nil for those of the system.
func (c *Config) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil //nolint:nilnil // nil means the system's
	}
	b, err := fetch.ReadFile(c.CAFile, maxRoots)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("ca_file: %s contains no certificate in PEM", c.CAFile)
	}
	return pool, nil
}
