package kubernetes

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"ebb/attest/fetch"
)

// Where a pod finds its own login (kubelet, volume of the service account).
const (
	inClusterDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	maxLogin     = 64 << 10
	maxRoots     = 1 << 20
)

// inCluster fills in what a pod finds by itself. Half of it is not filled in: the
// token of one cluster must not go to the server of another.
func (c *Config) inCluster(bad func(string, ...any)) {
	if c.Server != "" {
		if c.TokenFile == "" {
			bad("token_file: name the file with ebb's own login at server")
		}
		return
	}
	if c.TokenFile != "" || c.CAFile != "" {
		bad("server: name the API server that token_file and ca_file are for, or leave out all three inside of the cluster")
		return
	}
	getenv := c.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		bad("server: name the API server, its ca_file and token_file; only inside of a pod are they known")
		return
	}
	c.Server = "https://" + net.JoinHostPort(host, port)
	c.TokenFile, c.CAFile = filepath.Join(inClusterDir, "token"), filepath.Join(inClusterDir, "ca.crt")
}

// readLogin reads ebb's own token. It is read for each call: a kubelet replaces it
// at four fifths of its life.
func readLogin(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own configuration names it
	if err != nil {
		return "", fmt.Errorf("reading ebb's login: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("reading ebb's login: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o007 != 0 {
		return "", fmt.Errorf("reading ebb's login: %s must be a regular file that others cannot read: chmod o= it, or set fsGroup or runAsUser in the pod's securityContext", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxLogin+1))
	if err != nil {
		return "", fmt.Errorf("reading ebb's login: %w", err)
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" || len(b) > maxLogin {
		return "", fmt.Errorf("reading ebb's login: %s must hold 1 to %d bytes", path, maxLogin)
	}
	for i := 0; i < len(text); i++ {
		if text[i] <= ' ' || text[i] > '~' {
			return "", fmt.Errorf("reading ebb's login: %s holds more than one token", path)
		}
	}
	return text, nil
}

// roots reads CAFile; nil stands for the system's.
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
		return nil, errors.New("ca_file: it holds no certificate in PEM")
	}
	return pool, nil
}
