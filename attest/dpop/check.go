package dpop

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// Request is what the server knows about the request that a proof came with.
type Request struct {
	// Method as received, such as "POST". Compared with htm by letter case.
	Method string
	// URL of this resource, from configuration: never from the Host header or a
	// forwarding header (RFC 9449, section 4.3; standards assertion 104).
	URL string
	// AccessToken is the access token of the request; "" at the token endpoint. When it is
	// set, the proof must contain its hash as ath.
	AccessToken string
	// Now is the time of the check.
	Now time.Time
}

// Options are the options of a server. The zero value is usable.
type Options struct {
	// Algs are the accepted algorithms. Default ES256 and EdDSA (Ed25519).
	Algs []jose.Alg
	// Past and Future bound iat around Now. Default 60 s each.
	Past, Future time.Duration
	// Nonce reports whether this server issued a nonce and the nonce is still fresh; see
	// Nonces.Check. nil: proofs need no nonce.
	Nonce func(nonce string, now time.Time) bool
	// Headers caches the parsed headers of earlier proofs, for clients that send many proofs
	// with one key. nil: no cache. Share the cache with no other use.
	Headers *jose.Headers
}

// DefaultAlgs returns the algorithms that a server advertises when Options.Algs is empty.
func DefaultAlgs() []jose.Alg { return []jose.Alg{jose.ES256, jose.EdDSA, jose.Ed25519} }

// Proof is an accepted proof.
type Proof struct {
	// JKT is the RFC 7638 thumbprint of the key.
	JKT string
	// Public is the key.
	Public crypto.PublicKey
	// JTI is 1 to 256 bytes, chosen by the client.
	JTI string
	// ReplayKey is the base64url SHA-256 of JKT, htu and JTI. Its size does not depend on
	// JTI, and it is the same for both valid forms of an ECDSA signature.
	ReplayKey string
	// Until is when ReplayKey may be forgotten. From then on, every replica refuses this
	// proof, also one with a clock that is slow within the tolerance.
	Until time.Time
	// From is the earliest time at which a replica accepts this proof. The client chooses it
	// with iat, which may be ahead by Options.Future.
	From time.Time
	// Nonce is the nonce of the proof, "" for none. It is checked only with Options.Nonce.
	Nonce string
}

// MaxProof is the size limit of a proof in bytes; an RS256 key and signature
// with a long URL need about 2 KiB.
const MaxProof = 8 << 10

const (
	proofType    = "dpop+jwt"
	defaultRange = 60 * time.Second
)

// Check checks the values of the DPoP header of one request. Every error matches ErrProof or
// ErrNonce.
func Check(header []string, r Request, o Options) (Proof, error) {
	switch len(header) {
	case 0:
		return Proof{}, refuse(ReasonMissing, "a DPoP proof is required")
	case 1:
	default:
		return Proof{}, refuse(ReasonSeveral, "send exactly one DPoP header")
	}
	lim := jose.Limits{Size: MaxProof, Depth: 8, Members: 64, EmbeddedKey: true, Headers: o.Headers}
	u, err := jose.Parse(header[0], lim)
	if err != nil {
		return Proof{}, fromJOSE(err)
	}
	p, err := checkClaims(u.Claims(), r, o)
	if err != nil {
		return Proof{}, err
	}
	key := u.Header().Key
	if key.Public == nil {
		return Proof{}, refuse(ReasonToken, "the DPoP proof does not carry its public key")
	}
	if len(o.Algs) == 0 {
		o.Algs = DefaultAlgs()
	}
	profile := jose.Profile{Types: []string{proofType}, Algs: o.Algs, AnyIssuer: true, AnyAudience: true, NoExp: true,
		Leeway: orDefault(o.Future), Limits: lim}
	if _, err := u.Verify(profile, func(h jose.Header) (jose.Key, error) { return h.Key, nil }, r.Now); err != nil {
		return Proof{}, fromJOSE(err)
	}
	if o.Nonce != nil && (p.Nonce == "" || !o.Nonce(p.Nonce, r.Now)) {
		return Proof{}, refuse(ReasonNonce, "use the nonce of the DPoP-Nonce header")
	}
	if p.JKT, err = key.Thumbprint(); err != nil {
		return Proof{}, refuse(ReasonToken, "the key of the DPoP proof is not supported")
	}
	p.Public = key.Public
	p.ReplayKey = replayKey(p.JKT, r.URL, p.JTI)
	return p, nil
}

// checkClaims compares the claims of the proof with the request. It runs before the
// signature check because it is a hundred times cheaper.
func checkClaims(c *jose.Claims, r Request, o Options) (Proof, error) {
	htm, okM := c.String("htm")
	htu, okU := c.String("htu")
	if !okM || !okU || c.ID == "" || c.IssuedAt.IsZero() {
		return Proof{}, refuse(ReasonClaims, "the DPoP proof lacks jti, htm, htu or iat")
	}
	if htm != r.Method || htm == "" {
		return Proof{}, refuse(ReasonMethod, "the DPoP proof is for another method")
	}
	want, ok := normalHTU(r.URL)
	got, okGot := normalHTU(htu)
	if !ok || !okGot || got != want {
		return Proof{}, refuse(ReasonURL, "the DPoP proof is for another URL")
	}
	past, future := orDefault(o.Past), orDefault(o.Future)
	if age := r.Now.Sub(c.IssuedAt); age > past || -age > future {
		return Proof{}, refuse(ReasonTime, "the DPoP proof is too old or from the future; check the clock")
	}
	if r.AccessToken != "" {
		ath, _ := c.String("ath")
		if subtle.ConstantTimeCompare([]byte(ath), []byte(AccessTokenHash(r.AccessToken))) != 1 {
			return Proof{}, refuse(ReasonAth, "the DPoP proof is for another access token")
		}
	}
	p := Proof{JTI: c.ID, From: c.IssuedAt.Add(-future), Until: c.IssuedAt.Add(past + time.Second)}
	if c.Has("nonce") {
		if p.Nonce, ok = c.String("nonce"); !ok || !validNonce(p.Nonce) {
			return Proof{}, refuse(ReasonClaims, "the nonce of the DPoP proof has characters that are not allowed in nonces")
		}
	}
	return p, nil
}

func orDefault(d time.Duration) time.Duration {
	if d <= 0 {
		return defaultRange
	}
	return d
}

// validNonce reports whether s matches 1*NQCHAR (RFC 9449, section 8.1) and is within this
// package's length limit.
func validNonce(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x21 || s[i] > 0x7e || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return s != "" && len(s) <= 512
}

// AccessTokenHash is the ath of an access token (RFC 9449, section 4.2).
func AccessTokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func replayKey(jkt, url, jti string) string {
	htu, _ := normalHTU(url)
	sum := sha256.Sum256([]byte(jkt + "\x00" + htu + "\x00" + jti))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func fromJOSE(err error) error {
	r := ReasonToken
	if e, ok := errors.AsType[*jose.Error](err); ok {
		switch e.Reason {
		case jose.ReasonSignature:
			r = ReasonSignature
		case jose.ReasonClaims:
			r = ReasonClaims
		case jose.ReasonExpired, jose.ReasonNotYetValid, jose.ReasonLifetime:
			r = ReasonTime
		}
	}
	return &Error{Reason: r, Public: "the DPoP proof is not a well-formed, signed proof", cause: err}
}

// ErrProof is matched by every refusal of a proof: invalid_dpop_proof.
var ErrProof = errors.New("dpop: proof refused")

// ErrNonce is matched when everything but the nonce of the proof is valid. The server
// answers use_dpop_nonce with a fresh DPoP-Nonce (RFC 9449, sections 8 and 9). ErrNonce does
// not match ErrProof.
var ErrNonce = errors.New("dpop: nonce required")

// Reason is why a proof was refused: one of a fixed set, suitable as a metrics label.
type Reason string

// The reasons.
const (
	ReasonMissing   Reason = "missing"
	ReasonSeveral   Reason = "several"
	ReasonToken     Reason = "token"     // malformed, wrong typ, alg or header
	ReasonSignature Reason = "signature" // does not verify with the key in the header
	ReasonClaims    Reason = "claims"    // jti, htm, htu or iat absent or of the wrong kind
	ReasonMethod    Reason = "method"
	ReasonURL       Reason = "url"
	ReasonTime      Reason = "time"
	ReasonAth       Reason = "ath"
	ReasonNonce     Reason = "nonce"
)

// Error is the refusal of a proof. Public is one sentence that is suitable as
// error_description.
type Error struct {
	Reason Reason
	Public string
	cause  error
}

func (e *Error) Error() string {
	if e.cause == nil {
		return "dpop: " + e.Public
	}
	return "dpop: " + e.Public + ": " + e.cause.Error()
}

// Unwrap returns the cause, for logs.
func (e *Error) Unwrap() error { return e.cause }

// Is matches ErrNonce for a nonce and ErrProof for everything else.
func (e *Error) Is(target error) bool {
	if e.Reason == ReasonNonce {
		return target == ErrNonce
	}
	return target == ErrProof
}

func refuse(r Reason, public string) error { return &Error{Reason: r, Public: public} }

// normalHTU converts a URL to the form in which htu is compared (RFC 9449, section 4.3, step
// 9). Scheme and host become lower case; default port, query and fragment are dropped; an
// empty path becomes "/". The rest of the path is unchanged: "%2e" is not ".", and "//" is
// not "/". ok is true only for an absolute http or https URL without user information.
func normalHTU(raw string) (norm string, ok bool) {
	if len(raw) > 4096 {
		return "", false
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] <= 0x20 || raw[i] > 0x7e || raw[i] == '\\' {
			return "", false
		}
	}
	raw, _, _ = strings.Cut(raw, "#")
	raw, _, _ = strings.Cut(raw, "?")
	scheme, rest, found := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !found || scheme != "https" && scheme != "http" {
		return "", false
	}
	host, path, _ := strings.Cut(rest, "/")
	host = strings.ToLower(host)
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	host = strings.TrimSuffix(host, port)
	if host == "" || strings.ContainsRune(host, '@') || strings.HasSuffix(host, port) {
		return "", false
	}
	return scheme + "://" + host + "/" + path, true
}

type proofClaims struct {
	JTI   string `json:"jti"`
	HTM   string `json:"htm"`
	HTU   string `json:"htu"`
	IAT   int64  `json:"iat"`
	ATH   string `json:"ath,omitempty"`
	Nonce string `json:"nonce,omitempty"`
}

// NewProof makes a proof for one request. accessToken is "" for a request without one, and
// the proof then has no ath. nonce is the last DPoP-Nonce from that server, "" for none. The
// query and the fragment of the URL are left out (RFC 9449, section 4.2).
func NewProof(s jose.Signer, method, url, accessToken, nonce string, now time.Time) (string, error) {
	htu, ok := normalHTU(url)
	if !ok {
		return "", errors.New("dpop: the URL of the request is not an absolute http or https URL; write it like https://ebb.example/v1/token")
	}
	c := proofClaims{JTI: rand.Text(), HTM: method, HTU: htu, IAT: now.Unix(), Nonce: nonce}
	if accessToken != "" {
		c.ATH = AccessTokenHash(accessToken)
	}
	return jose.Sign(s, jose.SignHeader{Type: proofType, EmbedKey: true}, c)
}
