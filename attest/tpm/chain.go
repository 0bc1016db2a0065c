package tpm

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
)

var (
	oidSAN  = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidEKU  = asn1.ObjectIdentifier{2, 23, 133, 8, 1} // tcg-kp-EKCertificate
	oidTPM  = asn1.ObjectIdentifier{2, 23, 133, 2}    // prefix of 1 manufacturer, 2 model, 3 version
	errPath = errors.New("the EK certificate has no path to a configured root")
)

// endorsed has the facts of a verified EK certificate.
type endorsed struct {
	hash  string    // hex SHA-256 of the key's SubjectPublicKeyInfo
	until time.Time // the earliest expiry of the certificates in its path
	model string    // manufacturer and model, verbatim; "" when the certificate has none
}

// endorse verifies the path of an EK certificate, leaf first, and that it is an EK
// certificate for key (TCG EK Credential Profile for TPM Family 2.0, 3.2).
func (a authorities) endorse(chain [][]byte, key crypto.PublicKey, now time.Time) (*endorsed, error) {
	var certs []*x509.Certificate
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if err := bounded(certs); err != nil {
		return nil, err
	}
	leaf := certs[0]
	model, err := acceptName(leaf)
	if err != nil {
		return nil, err
	}
	if leaf.IsCA || !forEK(leaf) {
		return nil, errors.New("the certificate is not an EK certificate: it is a CA, or it lacks the key purpose tcg-kp-EKCertificate")
	}
	if k, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !k.Equal(key) {
		return nil, errors.New("the certificate is for a key other than ek_public")
	}
	between := a.intermediates.Clone()
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	// Key purposes are checked here, because crypto/x509 does not know the one of an EK.
	paths, err := leaf.Verify(x509.VerifyOptions{Roots: a.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPath, err)
	}
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	out := &endorsed{hash: hex.EncodeToString(sum[:]), model: model}
	for _, path := range paths {
		if slices.ContainsFunc(path[1:], func(c *x509.Certificate) bool { return !forAll(c) && !forEK(c) }) {
			continue
		}
		end := path[0].NotAfter
		for _, c := range path[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(out.until) {
			out.until = end
		}
	}
	if out.until.IsZero() {
		return nil, fmt.Errorf("%w: an issuer is restricted to other key purposes", errPath)
	}
	return out, nil
}

// Limits of the keys of certificates in evidence.
const (
	maxBits = 4096
	maxExpo = 1<<16 + 1
)

// bounded limits how much crypto/x509 has to compute for certificates in evidence.
// crypto/x509 accepts RSA keys of any size, and one signature with a key of 8 KiB takes a
// third of a second. It also tries every issuer with the right name, up to a hundred times.
// Therefore each subject may occur only once.
func bounded(certs []*x509.Certificate) error {
	seen := map[string]bool{}
	for _, c := range certs {
		if k, ok := c.PublicKey.(*rsa.PublicKey); ok && (k.N.BitLen() > maxBits || k.E > maxExpo) {
			return errors.New("a certificate has an RSA key of more than 4096 bits, or with an exponent of more than 65537")
		}
		if seen[string(c.RawSubject)] {
			return errors.New("two certificates have the same subject; send each certificate once")
		}
		seen[string(c.RawSubject)] = true
	}
	return nil
}

// forAll reports whether an issuer certificate does not restrict key purposes.
func forAll(c *x509.Certificate) bool {
	return len(c.ExtKeyUsage) == 0 && len(c.UnknownExtKeyUsage) == 0
}

func forEK(c *x509.Certificate) bool {
	return slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny) || slices.ContainsFunc(c.UnknownExtKeyUsage, oidEKU.Equal)
}

// acceptName parses the subject alternative name of an EK certificate and returns the model.
// The extension is critical when the subject is empty, and it is always a directoryName,
// which crypto/x509 does not parse. acceptName accepts no other critical extension that
// crypto/x509 does not handle.
func acceptName(c *x509.Certificate) (model string, err error) {
	for _, e := range c.Extensions {
		if !e.Id.Equal(oidSAN) {
			continue
		}
		if model, err = parseSAN(e.Value); err != nil {
			return "", fmt.Errorf("the subject alternative name: %w", err)
		}
		c.UnhandledCriticalExtensions = slices.DeleteFunc(c.UnhandledCriticalExtensions, oidSAN.Equal)
	}
	return model, nil
}

// parseSAN parses GeneralNames (RFC 5280, section 4.2.1.6) with exactly one directoryName
// that contains the manufacturer and the model of a TPM.
func parseSAN(der []byte) (model string, err error) {
	var names []asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &names); err != nil || len(rest) > 0 {
		return "", errors.Join(errors.New("not GeneralNames"), err)
	}
	found := 0
	for _, n := range names {
		if n.Class != asn1.ClassContextSpecific || n.Tag != 4 || !n.IsCompound {
			continue
		}
		found++
		var rdns pkix.RDNSequence
		if rest, err := asn1.Unmarshal(n.Bytes, &rdns); err != nil || len(rest) > 0 {
			return "", errors.Join(errors.New("not a directoryName"), err)
		}
		for _, rdn := range rdns {
			for _, at := range rdn {
				text, isText := at.Value.(string)
				if isText && text != "" && len(at.Type) == len(oidTPM)+1 && at.Type[:len(oidTPM)].Equal(oidTPM) && at.Type[len(oidTPM)] <= 2 {
					model += " " + text
				}
			}
		}
	}
	if found != 1 || model == "" {
		return "", errors.New("it does not contain the manufacturer and model of a TPM exactly once")
	}
	return model[1:], nil
}

// authorities are the CAs that the configuration trusts to certify EKs, and the
// intermediates below them.
type authorities struct {
	roots, intermediates *x509.CertPool
}

// newAuthorities returns a cache that reads the files at the first use and again every
// minute.
func newAuthorities(c Config) (*fetch.Cache[authorities], error) {
	read := func(context.Context) (authorities, time.Duration, error) {
		roots, err := pool(c.Roots)
		if err != nil {
			return authorities{}, 0, err
		}
		intermediates, err := pool(c.Intermediates)
		return authorities{roots, intermediates}, time.Minute, err
	}
	return fetch.NewCache(fetch.CacheConfig[authorities]{Read: read, Name: "the EK roots of " + c.Name, Now: c.Now, Logger: c.Logger})
}

func pool(files []string) (*x509.CertPool, error) {
	out := x509.NewCertPool()
	for _, name := range files {
		certs, err := fetch.ReadCertificates(name, authority)
		if err != nil {
			return nil, err
		}
		for _, c := range certs {
			out.AddCert(c)
		}
	}
	return out, nil
}

// authority returns an error for a certificate that is not a CA, because a root must be one.
func authority(c *x509.Certificate) error {
	if !c.BasicConstraintsValid || !c.IsCA {
		return errors.New("contains a certificate that is not a CA; list only CA certificates")
	}
	return nil
}
