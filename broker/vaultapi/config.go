package vaultapi

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// Config has the address of the server and the broker's login method.
type Config struct {
	Address   string `json:"address"` // https://vault.internal:8200
	Namespace string `json:"namespace,omitempty"`
	CAFile    string `json:"ca_file,omitempty"` // PEM; "" = the system's
	Auth      Auth   `json:"auth"`
	// Timeout is the timeout of one call; 0 means 10 s.
	Timeout time.Duration `json:"-"`
}

// Auth is one login method. Secrets are read from files at each login, so that they can be
// replaced there.
type Auth struct {
	Method string `json:"method"`          // approle, jwt, kubernetes or token
	Mount  string `json:"mount,omitempty"` // "" = the method's name
	Role   string `json:"role,omitempty"`  // jwt, kubernetes
	// approle
	RoleID       string `json:"role_id,omitempty"`
	SecretIDFile string `json:"secret_id_file,omitempty"`
	// SecretIDPath says that the file holds a wrapping token for a secret id, and names the path
	// at which it must have been made, such as auth/approle/role/ebb/secret-id. An attacker who
	// replaced the token could otherwise choose the identity that ebb logs in with.
	SecretIDPath string `json:"secret_id_wrapped_at,omitempty"`
	// jwt, kubernetes; "" = the pod's own token for kubernetes
	JWTFile string `json:"jwt_file,omitempty"`
	// token
	TokenFile string `json:"token_file,omitempty"`
}

const podToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path

// pathForm matches a path of the API that needs no escaping.
var pathForm = lazyregexp.New(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.@+=,-]+)*$`)

// ValidPath reports whether p is a valid path of the API, without escapes, dot segments and
// empty segments.
func ValidPath(p string) bool {
	return pathForm.MatchString(p) && !strings.Contains("/"+p+"/", "/../") && !strings.Contains("/"+p+"/", "/./")
}

func (c *Config) check() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	u, err := url.Parse(c.Address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		bad("address: the text does not have the form https://host:port")
	case !fetch.Secure(u):
		bad("address: only https, or http on loopback")
	}
	if c.Namespace != "" && !ValidPath(c.Namespace) {
		bad("namespace: %q is not a namespace", c.Namespace)
	}
	a := &c.Auth
	if a.Mount == "" {
		a.Mount = a.Method
	}
	need := func(name, v string) {
		if v == "" {
			bad("auth.%s: %s needs it", name, a.Method)
		}
	}
	switch a.Method {
	case "approle":
		need("role_id", a.RoleID)
		need("secret_id_file", a.SecretIDFile)
		if a.SecretIDPath != "" && !ValidPath(a.SecretIDPath) {
			bad("auth.secret_id_wrapped_at: it is not a path")
		}
	case "jwt":
		need("role", a.Role)
		need("jwt_file", a.JWTFile)
	case "kubernetes":
		need("role", a.Role)
		if a.JWTFile == "" {
			a.JWTFile = podToken
		}
	case "token":
		need("token_file", a.TokenFile)
	default:
		bad("auth.method: %q is none of approle, jwt, kubernetes, token", a.Method)
	}
	if a.Mount != "" && !ValidPath(a.Mount) {
		bad("auth.mount: %q is not a path", a.Mount)
	}
	return errors.Join(errs...)
}
