package ec2

import (
	"bytes"
	"crypto/sha256"
	"encoding/asn1"
	"errors"
	"math/big"
	"net/netip"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/crypto/cryptobyte"
	tag "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// maxContent is the maximum size of a document. AWS's have 0.5 KiB, and more with
// product codes.
const maxContent = 8 << 10

// document has the members of an instance identity document that are used. Unknown
// members are allowed: AWS has signed them, and ebb does not use them.
type document struct {
	AccountID        string `json:"accountId"`
	Region           string `json:"region"`
	InstanceID       string `json:"instanceId"`
	ImageID          string `json:"imageId"`
	InstanceType     string `json:"instanceType"`
	Architecture     string `json:"architecture"`
	AvailabilityZone string `json:"availabilityZone"`
	PrivateIP        string `json:"privateIp"`
	PendingTime      string `json:"pendingTime"`

	launched time.Time // PendingTime
}

var (
	accountForm  = lazyregexp.New(`^[0-9]{12}$`)
	regionForm   = lazyregexp.New(`^[a-z]{2,4}(-[a-z]{1,16}){1,3}-[1-9][0-9]?$`)
	instanceForm = lazyregexp.New(`^i-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)
	imageForm    = lazyregexp.New(`^ami-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)
	wordForm     = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// readDocument decodes a verified document. The decoder refuses duplicate members, and
// matches the names with their letter case.
func readDocument(content []byte) (document, error) {
	const public = "the signed document is not an instance identity document as AWS describes it"
	if len(content) > maxContent {
		return document{}, malformed(public, errors.New("too large"))
	}
	var d document
	if err := json.Unmarshal(content, &d); err != nil {
		return document{}, malformed(public, err)
	}
	for _, m := range []struct {
		name, value string
		form        *lazyregexp.Regexp
	}{
		{"accountId", d.AccountID, accountForm}, {"region", d.Region, regionForm}, {"instanceId", d.InstanceID, instanceForm},
		{"imageId", d.ImageID, imageForm}, {"instanceType", d.InstanceType, wordForm}, {"architecture", d.Architecture, wordForm},
		{"availabilityZone", d.AvailabilityZone, wordForm},
	} {
		if !m.form.MatchString(m.value) {
			return document{}, malformed(public, errors.New(m.name))
		}
	}
	var err error
	d.launched, err = time.Parse(time.RFC3339, d.PendingTime)
	if err != nil || d.launched.Format(time.RFC3339) != d.PendingTime {
		return document{}, malformed(public, errors.New("pendingTime"))
	}
	if d.PrivateIP != "" {
		ip, err := netip.ParseAddr(d.PrivateIP)
		if err != nil || ip.Zone() != "" {
			return document{}, malformed(public, errors.New("privateIp"))
		}
		d.PrivateIP = ip.String() // one spelling; IPv6 has many
	}
	return d, nil
}

// subject returns the Subject. The id of an instance is unique only within its region.
func (d document) subject() string { return d.AccountID + "/" + d.Region + "/" + d.InstanceID }

// The names of the selectors, as docs/attestors/ec2.md describes them.
const (
	selAccount  = "account"
	selRegion   = "region"
	selInstance = "instance_id"
)

// selectors returns the facts that a runner may register.
func (d document) selectors() map[string]string {
	out := map[string]string{
		selAccount: d.AccountID, selRegion: d.Region, selInstance: d.InstanceID, "image_id": d.ImageID,
		"instance_type": d.InstanceType, "architecture": d.Architecture, "availability_zone": d.AvailabilityZone,
	}
	if d.PrivateIP != "" {
		out["private_ip"] = d.PrivateIP
	}
	return out
}

// signedData has the contents of a SignedData (RFC 5652 section 5) as EC2 makes it: one
// signer with signed attributes, embedded content, no certificate.
type signedData struct {
	content    []byte
	issuer     []byte // issuer of the signer's certificate, a Name in DER
	serial     *big.Int
	attributes []byte // the signed bytes
	digest     []byte // digest of the content, from the attributes
	signature  []byte
}

var (
	oidData          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidSignedData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidContentType   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
	oidSigningTime   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 5}
	oidProtection    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 52}
	oidSHA256        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
	// One algorithm has two names (RFC 5754 section 3.2). AWS writes the second.
	oidsRSA = []asn1.ObjectIdentifier{{1, 2, 840, 113549, 1, 1, 1}, {1, 2, 840, 113549, 1, 1, 11}}
)

var (
	errForm      = errors.New("the SignedData does not have the form that EC2 writes")
	errAlgorithm = errors.New("the SignedData has an algorithm other than RSA with SHA-256")

	// context0 and context1 are [0] and [1], constructed.
	context0 = tag.Tag(0).ContextSpecific().Constructed()
	context1 = tag.Tag(1).ContextSpecific().Constructed()
	// octets is an OCTET STRING in parts (X.690, section 8.7.3).
	octets = tag.OCTET_STRING.Constructed()
)

// readSigned parses a ContentInfo with no data after it.
func readSigned(raw []byte) (signedData, error) {
	var d signedData
	s := cryptobyte.String(raw)
	err := within(&s, tag.SEQUENCE, func(s *cryptobyte.String) error {
		if !readOID(s, oidSignedData) {
			return errForm
		}
		return within(s, context0, func(s *cryptobyte.String) error {
			return within(s, tag.SEQUENCE, d.readBody)
		})
	})
	switch {
	case errors.Is(err, errAlgorithm):
		return signedData{}, attest.Reject(attest.ReasonAlgorithm, "the document is not signed with RSA and SHA-256; send the response of the metadata service at instance-identity/rsa2048", err)
	case err != nil || !s.Empty():
		return signedData{}, malformed("rsa2048 is not a SignedData of the form that EC2 makes", err)
	}
	return d, nil
}

// within reads a value that contains other values. Its length is definite; or
// indefinite, as AWS writes it, and then two zero bytes end it. It is used only for the
// values around the content. All others are DER.
func within(s *cryptobyte.String, t tag.Tag, read func(*cryptobyte.String) error) error {
	if bytes.HasPrefix(*s, []byte{byte(t), 0x80}) {
		s.Skip(2)
		if err := read(s); err != nil {
			return err
		}
		var end uint16
		if !s.ReadUint16(&end) || end != 0 {
			return errForm
		}
		return nil
	}
	var in cryptobyte.String
	if !s.ReadASN1(&in, t) {
		return errForm
	}
	if err := read(&in); err != nil {
		return err
	}
	if !in.Empty() {
		return errForm
	}
	return nil
}

// readBody parses SignedData. It leaves no place for certificates and revocation lists,
// because the signer must follow the content.
func (d *signedData) readBody(s *cryptobyte.String) error {
	var algorithms, signers, signer cryptobyte.String
	if !readVersion1(s) || !s.ReadASN1(&algorithms, tag.SET) {
		return errForm
	}
	if err := readAlgorithm(&algorithms, tag.SEQUENCE, oidSHA256); err != nil {
		return err
	}
	err := within(s, tag.SEQUENCE, func(s *cryptobyte.String) error {
		if !readOID(s, oidData) {
			return errForm
		}
		return within(s, context0, d.readContent)
	})
	if err != nil {
		return err
	}
	if !algorithms.Empty() || !s.ReadASN1(&signers, tag.SET) || !signers.ReadASN1(&signer, tag.SEQUENCE) || !signers.Empty() {
		return errForm
	}
	return d.readSigner(&signer)
}

// readContent parses an OCTET STRING, primitive or constructed from parts.
func (d *signedData) readContent(s *cryptobyte.String) error {
	if s.PeekASN1Tag(tag.OCTET_STRING) {
		if !s.ReadASN1Bytes(&d.content, tag.OCTET_STRING) || len(d.content) == 0 {
			return errForm
		}
		return nil
	}
	return within(s, octets, func(s *cryptobyte.String) error {
		for s.PeekASN1Tag(tag.OCTET_STRING) {
			var part []byte
			if !s.ReadASN1Bytes(&part, tag.OCTET_STRING) || len(part) == 0 {
				return errForm
			}
			d.content = append(d.content, part...)
		}
		if len(d.content) == 0 {
			return errForm
		}
		return nil
	})
}

// readSigner parses SignerInfo. Unsigned attributes are refused.
func (d *signedData) readSigner(s *cryptobyte.String) error {
	var id, name, signed, attributes cryptobyte.String
	d.serial = new(big.Int)
	if !readVersion1(s) || !s.ReadASN1(&id, tag.SEQUENCE) ||
		!id.ReadASN1Element(&name, tag.SEQUENCE) || !id.ReadASN1Integer(d.serial) || !id.Empty() {
		return errForm
	}
	d.issuer = name
	if err := readAlgorithm(s, tag.SEQUENCE, oidSHA256); err != nil {
		return err
	}
	same := *s
	if !s.ReadASN1Element(&signed, context0) || !same.ReadASN1(&attributes, context0) {
		return errForm
	}
	// The signature is over the attributes with the tag SET (RFC 5652 section 5.4).
	d.attributes = append([]byte{byte(tag.SET)}, signed[1:]...)
	if err := readAlgorithm(s, tag.SEQUENCE, oidsRSA...); err != nil {
		return err
	}
	if !s.ReadASN1Bytes(&d.signature, tag.OCTET_STRING) || !s.Empty() {
		return errForm
	}
	return d.readAttributes(&attributes)
}

// readAttributes parses SignedAttributes: two are required, two are optional, others
// are refused.
func (d *signedData) readAttributes(s *cryptobyte.String) error {
	seen := map[string]bool{}
	for !s.Empty() {
		var attribute, values cryptobyte.String
		var oid asn1.ObjectIdentifier
		if !s.ReadASN1(&attribute, tag.SEQUENCE) || !attribute.ReadASN1ObjectIdentifier(&oid) || seen[oid.String()] ||
			!attribute.ReadASN1(&values, tag.SET) || !attribute.Empty() {
			return errForm
		}
		seen[oid.String()] = true
		if err := d.readAttribute(oid, &values); err != nil {
			return err
		}
		if !values.Empty() {
			return errForm
		}
	}
	if !seen[oidContentType.String()] || !seen[oidMessageDigest.String()] {
		return errForm
	}
	return nil
}

func (d *signedData) readAttribute(oid asn1.ObjectIdentifier, value *cryptobyte.String) error {
	ok := false
	switch {
	case oid.Equal(oidContentType):
		ok = readOID(value, oidData)
	case oid.Equal(oidMessageDigest):
		ok = value.ReadASN1Bytes(&d.digest, tag.OCTET_STRING) && len(d.digest) == sha256.Size
	case oid.Equal(oidSigningTime):
		// signingTime of this copy. AWS documents no relation between it and the
		// launch.
		ok = value.SkipASN1(tag.UTCTime)
	case oid.Equal(oidProtection):
		var in cryptobyte.String
		if !value.ReadASN1(&in, tag.SEQUENCE) {
			return errForm
		}
		if err := errors.Join(readAlgorithm(&in, tag.SEQUENCE, oidSHA256), readAlgorithm(&in, context1, oidsRSA...)); err != nil {
			return err
		}
		ok = in.Empty()
	}
	if !ok {
		return errForm
	}
	return nil
}

func readVersion1(s *cryptobyte.String) bool {
	var v int
	return s.ReadASN1Integer(&v) && v == 1
}

func readOID(s *cryptobyte.String, want ...asn1.ObjectIdentifier) bool {
	var oid asn1.ObjectIdentifier
	return s.ReadASN1ObjectIdentifier(&oid) && slices.ContainsFunc(want, oid.Equal)
}

// readAlgorithm parses an AlgorithmIdentifier whose parameters are absent or NULL.
func readAlgorithm(s *cryptobyte.String, t tag.Tag, want ...asn1.ObjectIdentifier) error {
	var in, null cryptobyte.String
	if !s.ReadASN1(&in, t) {
		return errForm
	}
	if !readOID(&in, want...) {
		return errAlgorithm
	}
	if !in.Empty() && (!in.ReadASN1(&null, tag.NULL) || !null.Empty() || !in.Empty()) {
		return errForm
	}
	return nil
}
