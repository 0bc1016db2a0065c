package ssh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// skew is how far a host's clock may be behind that of ebb.
const skew = 60 * time.Second

// SerialOf returns the serial of a lease's certificate: the first 64 bits of the SHA-256 of the
// lease id, which has 74 random bits. The serial is therefore never stored.
func SerialOf(leaseID string) uint64 {
	sum := sha256.Sum256([]byte("ebb ssh certificate serial\x00" + leaseID))
	return max(binary.BigEndian.Uint64(sum[:]), 1) // 0 means "no serial" to OpenSSH
}

// KeyIDOf returns the key id of a lease's certificate, which sshd logs at each login. It
// contains no spaces. It is "" when an id is malformed.
func KeyIDOf(instance, leaseID string) string {
	name := provider.Name(instance, leaseID)
	if name == "" {
		return ""
	}
	return "lease:" + leaseID + "/" + name
}

// certificate returns the unsigned certificate for g.
func (d *Driver) certificate(g provider.Grant, p plan, key ssh.PublicKey) (*ssh.Certificate, time.Time, error) {
	expires := g.ExpiresAt
	if longest := g.IssuedAt.Add(d.set.maxTTL); expires.After(longest) {
		expires = longest
	}
	expires = expires.Truncate(time.Second)
	keyID := KeyIDOf(g.Instance, g.LeaseID)
	// A zero time, or one before 1970, would become a huge number, and the certificate would
	// never expire.
	if keyID == "" || g.IssuedAt.Unix() <= int64(skew.Seconds()) || expires.Unix() <= g.IssuedAt.Unix() {
		return nil, time.Time{}, errors.New("ssh provider: the grant is incomplete")
	}
	c := &ssh.Certificate{
		Key: key, Serial: SerialOf(g.LeaseID), CertType: ssh.UserCert, KeyId: keyID, ValidPrincipals: p.principals,
		ValidAfter:  uint64(g.IssuedAt.Add(-skew).Unix()), //nolint:gosec // checked above
		ValidBefore: uint64(expires.Unix()),               //nolint:gosec // checked above
		Permissions: ssh.Permissions{CriticalOptions: map[string]string{}, Extensions: map[string]string{}},
	}
	if p.force != "" {
		c.CriticalOptions["force-command"] = p.force
	}
	if p.sources != "" {
		c.CriticalOptions["source-address"] = p.sources
	}
	for _, e := range p.extensions {
		c.Extensions[e] = ""
	}
	return c, expires, nil
}

// Actions. A scope set needs exactly one of login and run.<command>, because a certificate
// without a forced command allows every command.
const (
	actionLogin = "login"
	actionRun   = "run."
)

// extensions are the actions that permit more than commands (PROTOCOL.certkeys, "Extensions"). All
// other extensions, such as X11 and ~/.ssh/rc, are never permitted.
var extensions = map[string]string{
	"pty":              "permit-pty",
	"port-forwarding":  "permit-port-forwarding",
	"agent-forwarding": "permit-agent-forwarding",
}

// plan is the variable content of a certificate.
type plan struct {
	principals []string // sorted, never empty
	groups     []string // sorted
	extensions []string // sorted
	force      string   // "" allows any command
	sources    string   // comma-separated CIDR ranges; "" allows any address
}

// planOf maps scopes to a certificate that permits exactly them. One certificate has one set
// of options for all its principals, so the scopes must have the same actions for every login
// on every group. The error wraps provider.ErrUnsupported.
func (s *settings) planOf(set scopes.Set) (plan, error) {
	var p plan
	actions := map[string][]string{} // principal -> actions, in the set's order
	var sources []netip.Prefix
	for i, scope := range set.Scopes() {
		group, principal, from, err := s.target(scope)
		if err != nil {
			return plan{}, err
		}
		if i > 0 && !slices.Equal(from, sources) {
			return plan{}, unsupported("one certificate has one source-address, and these groups have several: ask for each group by itself")
		}
		sources = from
		actions[principal] = append(actions[principal], scope.Action())
		p.groups = append(p.groups, group)
	}
	if len(actions) == 0 {
		return plan{}, unsupported("no scope")
	}
	p.principals = slices.Sorted(maps.Keys(actions))
	asked := sorted(actions[p.principals[0]])
	for _, principal := range p.principals {
		if !slices.Equal(sorted(actions[principal]), asked) {
			return plan{}, unsupported("one certificate permits the same for each of its principals: ask for %s and %s by themselves", p.principals[0], principal)
		}
	}
	p.groups = slices.Compact(sorted(p.groups))
	p.sources = joinPrefixes(sources)
	return p, s.permit(&p, asked)
}

// target returns the group and the principal of a scope.
func (s *settings) target(scope scopes.Scope) (groupName, principal string, from []netip.Prefix, err error) {
	segments := scope.Segments()
	if len(segments) != 2 {
		return "", "", nil, unsupported("%s: a resource is <group>/<login>", scope)
	}
	name, login := segments[0], segments[1]
	g, known := s.groups[name]
	if !known && groupForm.MatchString(name) {
		if _, domain, ok := strings.Cut(name, "."); ok {
			g, known = s.groups["*."+domain]
		}
	}
	if !known {
		return "", "", nil, unsupported("%s: there is no such group of hosts; a pattern cannot be certified", scope)
	}
	if !slices.Contains(g.logins, login) {
		return "", "", nil, unsupported("%s: there is no such login in the group; a pattern cannot be certified", scope)
	}
	if s.Principals == principalsLogin {
		return name, login, g.sources, nil
	}
	return name, login + "@" + name, g.sources, nil
}

// permit converts actions to options.
func (s *settings) permit(p *plan, actions []string) error {
	entries := 0
	for _, a := range actions {
		if a == actionLogin {
			entries++
		} else if name, ok := strings.CutPrefix(a, actionRun); ok {
			entries++
			if p.force, ok = s.Commands[name]; !ok {
				return unsupported("there is no command %q", name)
			}
		} else if e, ok := extensions[a]; ok {
			p.extensions = append(p.extensions, e)
		} else {
			return unsupported("there is no action %q: known are login, run.<command>, pty, port-forwarding, agent-forwarding", a)
		}
	}
	if entries != 1 {
		return unsupported("exactly one of login and run.<command> is needed: a certificate permits any command or one")
	}
	slices.Sort(p.extensions)
	return nil
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", provider.ErrUnsupported, fmt.Sprintf(format, args...))
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func joinPrefixes(list []netip.Prefix) string {
	texts := make([]string, 0, len(list))
	for _, p := range list {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ",")
}

// maxLine is the maximum length of a public key's line in bytes; the P-256 key of a security
// token needs 200.
const maxLine = 4096

// keyTypes are the accepted types of keys. RSA keys are large and slow to verify, P-384 and
// P-521 have no advantage over the accepted types here, and DSA is obsolete.
var keyTypes = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256}

// parsePublicKey reads one line of authorized_keys (sshd(8)): type, key, and a comment that it
// ignores. It refuses options, certificates, other types, and every line that x/crypto would
// read but write differently. The error is a sentence for the caller, and contains nothing
// from the line.
func parsePublicKey(line string) (ssh.PublicKey, error) {
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if line == "" {
		return nil, errors.New("public_key is missing: send the line of the .pub file of a new key")
	}
	if len(line) > maxLine || !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, fmt.Errorf("public_key must be one line of at most %d printable characters", maxLine)
	}
	kind, rest, _ := strings.Cut(line, " ")
	text, _, _ := strings.Cut(rest, " ")
	if !slices.Contains(keyTypes, kind) {
		return nil, fmt.Errorf("public_key must begin with one of %s: options, certificates and other keys are not certified", strings.Join(keyTypes, ", "))
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("public_key: the second field must be the base64 of the key")
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil || key.Type() != kind || !bytes.Equal(key.Marshal(), blob) {
		return nil, fmt.Errorf("public_key: the second field is no %s key", kind)
	}
	if !strong(blob) {
		return nil, errors.New("public_key: the Ed25519 key is not canonical or has a small order, so that anybody can sign for it; make a new one with ssh-keygen")
	}
	if !plainApplication(kind, blob) {
		return nil, errors.New("public_key: the application of a security key must be ssh: and printable")
	}
	return key, nil
}

// strong reports whether a signature for the key requires its private key. This is not certain
// only for Ed25519 (see jose.NewKey). The blob of a security key has the same first members as
// that of a plain key.
func strong(blob []byte) bool {
	var ed struct {
		Kind string
		Key  []byte
		Rest []byte `ssh:"rest"`
	}
	if ssh.Unmarshal(blob, &ed) != nil || ed.Kind != ssh.KeyAlgoED25519 && ed.Kind != ssh.KeyAlgoSKED25519 {
		return true // ECDSA: ssh.ParsePublicKey has checked its points
	}
	_, err := jose.NewKey("", ed25519.PublicKey(ed.Key))
	return err == nil
}

// plainApplication checks the application of a security key (PROTOCOL.u2f), a text from the
// caller that becomes part of the certificate.
func plainApplication(kind string, blob []byte) bool {
	var ed struct {
		Kind        string
		Key         []byte
		Application string
	}
	var ec struct {
		Kind        string
		Curve       string
		Key         []byte
		Application string
	}
	var application string
	var err error
	switch kind {
	case ssh.KeyAlgoSKED25519:
		err = ssh.Unmarshal(blob, &ed)
		application = ed.Application
	case ssh.KeyAlgoSKECDSA256:
		err = ssh.Unmarshal(blob, &ec)
		application = ec.Application
	default:
		return true
	}
	return err == nil && strings.HasPrefix(application, "ssh:") && printable(application) && len(application) <= 255
}
