package ec2_test

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
)

// badDocument is a change to a valid document, with the reason of its rejection.
type badDocument struct {
	why   attest.Reason
	spoil func(*parts)
}

func launched(at time.Time) func(*parts) {
	return func(p *parts) { p.set("pendingTime", `"`+at.UTC().Format(time.RFC3339)+`"`) }
}

// foreign returns a change that signs with another maker's key and names its
// certificate.
func foreign(m *maker) func(*parts) {
	return func(p *parts) { p.maker, p.id = m, m.launch(time.Time{}, "").id }
}

func inPieces(document string) []byte {
	b := []byte(document)
	return inf(0x24, der(4, b[:1]), der(4, b[1:200]), der(4, b[200:]))
}

// attributesOf returns the attributes that AWS writes, in its order.
func attributesOf(document, at string) [][]byte {
	sum := sha256.Sum256([]byte(document))
	return [][]byte{
		attribute(contentType, data), attribute(signingTime, der(0x17, []byte(at))),
		attribute(protection, der(0x30, der(0x30, sha256OID, null), der(0xa1, rsaSHA256, null))), attribute(digestOf, der(4, sum[:])),
	}
}

// badDocuments returns validly signed documents that must be rejected, and some with
// invalid signatures.
func badDocuments(t testing.TB, f *fixture) map[string]badDocument {
	t.Helper()
	out := map[string]badDocument{}
	for _, group := range []map[string]badDocument{badContents(f), badSigners(t, f), badEnvelopes(f), badAttributes()} {
		for name, b := range group {
			out[name] = b
		}
	}
	return out
}

func badContents(f *fixture) map[string]badDocument {
	now := f.clock.Now()
	set := func(name, value string) func(*parts) { return func(p *parts) { p.set(name, value) } }
	content := func(change func(string) string) func(*parts) { return func(p *parts) { p.content = change } }
	out := map[string]badDocument{
		"another account":                  {attest.ReasonClaims, set("accountId", `"210987654321"`)},
		"an account with a prefix":         {attest.ReasonMalformed, set("accountId", `"1234567890123"`)},
		"an account as a number":           {attest.ReasonMalformed, set("accountId", `123456789012`)},
		"a region that is not configured":  {attest.ReasonIssuer, set("region", `"eu-west-2"`)},
		"a region of another certificate":  {attest.ReasonIssuer, set("region", `"`+other+`"`)},
		"a launch 5 minutes ago":           {attest.ReasonExpired, launched(now.Add(-5 * time.Minute))},
		"a launch a year ago":              {attest.ReasonExpired, launched(now.AddDate(-1, 0, 0))},
		"a clock that is slow by 5 min":    {attest.ReasonNotYetValid, launched(now.Add(5 * time.Minute))},
		"a launch with an offset":          {attest.ReasonMalformed, set("pendingTime", `"`+now.Format("2006-01-02T15:04:05")+`+00:00"`)},
		"a launch with a fraction":         {attest.ReasonMalformed, set("pendingTime", `"`+now.Format("2006-01-02T15:04:05")+`.0Z"`)},
		"a launch in seconds":              {attest.ReasonMalformed, set("pendingTime", `1800000000`)},
		"a launch on no day":               {attest.ReasonMalformed, set("pendingTime", `"2027-02-30T00:00:00Z"`)},
		"an address that is none":          {attest.ReasonMalformed, set("privateIp", `"10.0.0.256"`)},
		"an address with a zone":           {attest.ReasonMalformed, set("privateIp", `"fe80::1%eth0"`)},
		"an instance in upper case":        {attest.ReasonMalformed, set("instanceId", `"i-0123456789ABCDEF0"`)},
		"an instance with a line end":      {attest.ReasonMalformed, set("instanceId", `"i-0123456789abcdef0\n"`)},
		"an instance with a space":         {attest.ReasonMalformed, set("instanceId", `" i-0123456789abcdef0"`)},
		"an instance of 16 digits":         {attest.ReasonMalformed, set("instanceId", `"i-0123456789abcdef"`)},
		"a type that hides":                {attest.ReasonMalformed, set("instanceType", `"t2\u202e"`)},
		"a type without end":               {attest.ReasonMalformed, set("instanceType", `"`+strings.Repeat("t", 65)+`"`)},
		"an image of another kind":         {attest.ReasonMalformed, set("imageId", `"aki-0fa9e1f64142cde17"`)},
		"a member twice":                   {attest.ReasonMalformed, content(func(s string) string { return strings.Replace(s, "{", `{"region":"x",`, 1) })},
		"an unused member twice":           {attest.ReasonMalformed, content(func(s string) string { return strings.Replace(s, "{", `{"kernelId":1,`, 1) })},
		"the same name by escapes":         {attest.ReasonMalformed, content(func(s string) string { return strings.Replace(s, "{", `{"r\u0065gion":"x",`, 1) })},
		"only a name in another case":      {attest.ReasonMalformed, content(func(s string) string { return strings.Replace(s, "instanceId", "InstanceId", 1) })},
		"two objects":                      {attest.ReasonMalformed, content(func(s string) string { return s + s })},
		"a comma behind":                   {attest.ReasonMalformed, content(func(s string) string { return s + "," })},
		"a comment":                        {attest.ReasonMalformed, content(func(s string) string { return s + "//" })},
		"not UTF-8":                        {attest.ReasonMalformed, content(func(s string) string { return strings.Replace(s, "null", "\"\xff\"", 1) })},
		"half a surrogate":                 {attest.ReasonMalformed, content(func(s string) string { return strings.Replace(s, "null", `"\ud800"`, 1) })},
		"a byte order mark":                {attest.ReasonMalformed, content(func(s string) string { return "\ufeff" + s })},
		"a list of it":                     {attest.ReasonMalformed, content(func(s string) string { return "[" + s + "]" })},
		"null":                             {attest.ReasonMalformed, content(func(string) string { return "null" })},
		"an empty object":                  {attest.ReasonMalformed, content(func(string) string { return "{}" })},
		"no content":                       {attest.ReasonMalformed, content(func(string) string { return "" })},
		"a content of 9 KiB":               {attest.ReasonMalformed, content(func(s string) string { return s + strings.Repeat(" ", 9<<10) })},
		"evidence of 20 KiB":               {attest.ReasonOversized, content(func(s string) string { return s + strings.Repeat(" ", 16<<10) })},
		"a member of another kind deep in": {attest.ReasonMalformed, set("billingProducts", strings.Repeat("[", 5000)+strings.Repeat("]", 5000))},
	}
	for _, name := range []string{"accountId", "region", "instanceId", "imageId", "instanceType", "architecture", "availabilityZone", "pendingTime"} {
		out["no "+name] = badDocument{attest.ReasonMalformed, func(p *parts) {
			p.members = slices.DeleteFunc(p.members, func(m member) bool { return m.name == name })
		}}
		out["null for "+name] = badDocument{attest.ReasonMalformed, set(name, "null")}
		out["a list for "+name] = badDocument{attest.ReasonMalformed, set(name, `["x"]`)}
	}
	return out
}

func badSigners(t testing.TB, f *fixture) map[string]badDocument {
	t.Helper()
	now := f.clock.Now()
	stranger := newMaker(t, 2, now)
	cut := func(b []byte) []byte { return b[:len(b)-1] }
	return map[string]badDocument{
		"a stranger's certificate":          {attest.ReasonIssuer, foreign(stranger)},
		"a stranger's key under AWS's name": {attest.ReasonSignature, func(p *parts) { p.maker = stranger }},
		"another region's key":              {attest.ReasonSignature, func(p *parts) { p.maker = f.other }},
		"another region's certificate":      {attest.ReasonIssuer, foreign(f.other)},
		"a serial number of nobody's":       {attest.ReasonIssuer, func(p *parts) { p.id = der(0x30, f.maker.cert.RawIssuer, one) }},
		"a negative serial number": {attest.ReasonIssuer, func(p *parts) {
			p.id = der(0x30, f.maker.cert.RawIssuer, der(2, f.maker.cert.SerialNumber.Bytes()))
		}},
		"a serial number with a zero": {attest.ReasonMalformed, func(p *parts) {
			p.id = der(0x30, f.maker.cert.RawIssuer, der(2, []byte{0, 0}, f.maker.cert.SerialNumber.Bytes()))
		}},
		"another issuer": {attest.ReasonIssuer, func(p *parts) {
			p.id = der(0x30, bytes.Replace(f.maker.cert.RawIssuer, []byte("Seattle"), []byte("seattle"), 1), der(2, []byte{0}, f.maker.cert.SerialNumber.Bytes()))
		}},
		"an issuer, a number and more": {attest.ReasonMalformed, func(p *parts) {
			p.id = der(0x30, f.maker.cert.RawIssuer, der(2, []byte{0}, f.maker.cert.SerialNumber.Bytes()), null)
		}},
		"no issuer":             {attest.ReasonIssuer, func(p *parts) { p.id = der(0x30, der(0x30), one) }},
		"a key id for it":       {attest.ReasonMalformed, func(p *parts) { p.id, p.signerVersion = der(0x80, make([]byte, 20)), []byte{2, 1, 3} }},
		"an empty signature":    {attest.ReasonSignature, func(p *parts) { p.signature = der(4) }},
		"a signature of zeros":  {attest.ReasonSignature, func(p *parts) { p.signature = der(4, make([]byte, 256)) }},
		"a signature of one":    {attest.ReasonSignature, func(p *parts) { p.signature = der(4, append(make([]byte, 255), 1)) }},
		"a cut signature":       {attest.ReasonSignature, func(p *parts) { p.signature = der(4, cut(make([]byte, 256))) }},
		"no signature":          {attest.ReasonMalformed, func(p *parts) { p.signature = []byte{} }},
		"a signature in parts":  {attest.ReasonMalformed, func(p *parts) { p.signature = inf(0x24, der(4, make([]byte, 256))) }},
		"signed with SHA-1":     {attest.ReasonAlgorithm, func(p *parts) { p.algorithm = der(0x30, rsaSHA1, null) }},
		"RSA-PSS":               {attest.ReasonAlgorithm, func(p *parts) { p.algorithm = der(0x30, oid(1, 2, 840, 113549, 1, 1, 10), null) }},
		"DSA":                   {attest.ReasonAlgorithm, func(p *parts) { p.algorithm = der(0x30, oid(1, 2, 840, 10040, 4, 3)) }},
		"ECDSA":                 {attest.ReasonAlgorithm, func(p *parts) { p.algorithm = der(0x30, oid(1, 2, 840, 10045, 4, 3, 2)) }},
		"parameters":            {attest.ReasonMalformed, func(p *parts) { p.algorithm = der(0x30, rsaSHA256, der(0x30)) }},
		"two parameters":        {attest.ReasonMalformed, func(p *parts) { p.algorithm = der(0x30, rsaSHA256, null, null) }},
		"a NULL with something": {attest.ReasonMalformed, func(p *parts) { p.algorithm = der(0x30, rsaSHA256, []byte{5, 1, 0}) }},
		"a digest of SHA-1":     {attest.ReasonAlgorithm, func(p *parts) { p.digest = der(0x30, sha1OID, null) }},
		"unsigned attributes":   {attest.ReasonMalformed, func(p *parts) { p.unsigned = der(0xa1, attribute(signingTime, der(0x17, []byte("210903212547Z")))) }},
	}
}

// badEnvelopes returns changes of the structure around the content, which is not
// signed.
func badEnvelopes(f *fixture) map[string]badDocument {
	all := func(change func([]byte) []byte) badDocument {
		return badDocument{attest.ReasonMalformed, func(p *parts) { p.all = change }}
	}
	octets := func(b func([]byte) []byte) badDocument {
		return badDocument{attest.ReasonMalformed, func(p *parts) { p.octets = b([]byte(p.document())) }}
	}
	signers := func(change func([]byte) []byte) badDocument {
		return badDocument{attest.ReasonMalformed, func(p *parts) { p.signers = change }}
	}
	return map[string]badDocument{
		"a byte behind":                  all(func(b []byte) []byte { return append(b, 0) }),
		"two zeros behind":               all(func(b []byte) []byte { return append(b, 0, 0) }),
		"another one behind":             all(func(b []byte) []byte { return slices.Concat(b, b) }),
		"without its end":                all(func(b []byte) []byte { return b[:len(b)-2] }),
		"without half its end":           all(func(b []byte) []byte { return b[:len(b)-1] }),
		"an end with a length":           all(func(b []byte) []byte { b[len(b)-1] = 1; return b }),
		"definite but endless":           all(func(b []byte) []byte { b[1] = 0x84; return b }),
		"a length of 2^31":               all(func([]byte) []byte { return []byte{0x30, 0x84, 0x80, 0, 0, 0} }),
		"a length with a zero":           all(func(b []byte) []byte { return append([]byte{0x30, 0x83, 0, byte(len(b) >> 8), byte(len(b))}, b...) }),
		"a tag of two bytes":             all(func(b []byte) []byte { return append([]byte{0x3f, 0x10}, b[1:]...) }),
		"a SET":                          all(func(b []byte) []byte { b[0] = 0x31; return b }),
		"in itself":                      all(func(b []byte) []byte { return inf(0x30, b) }),
		"ten thousand deep":              all(func([]byte) []byte { return bytes.Repeat([]byte{0x30, 0x80}, 5000) }),
		"enveloped data":                 {attest.ReasonMalformed, func(p *parts) { p.outer = oid(1, 2, 840, 113549, 1, 7, 3) }},
		"a content that is signed data":  {attest.ReasonMalformed, func(p *parts) { p.contentType = signedOID }},
		"version 3":                      {attest.ReasonMalformed, func(p *parts) { p.version = []byte{2, 1, 3} }},
		"a signer's version 0":           {attest.ReasonMalformed, func(p *parts) { p.signerVersion = []byte{2, 1, 0} }},
		"a digest algorithm of SHA-1":    {attest.ReasonAlgorithm, func(p *parts) { p.digests = der(0x31, der(0x30, sha1OID, null)) }},
		"no digest algorithm":            {attest.ReasonMalformed, func(p *parts) { p.digests = der(0x31) }},
		"two digest algorithms":          {attest.ReasonMalformed, func(p *parts) { p.digests = der(0x31, der(0x30, sha256OID, null), der(0x30, sha1OID, null)) }},
		"a digest algorithm twice":       {attest.ReasonMalformed, func(p *parts) { p.digests = der(0x31, der(0x30, sha256OID, null), der(0x30, sha256OID)) }},
		"a certificate of AWS's along":   {attest.ReasonMalformed, func(p *parts) { p.more = der(0xa0, f.maker.cert.Raw) }},
		"an empty set of certificates":   {attest.ReasonMalformed, func(p *parts) { p.more = der(0xa0) }},
		"an endless set of certificates": {attest.ReasonMalformed, func(p *parts) { p.more = inf(0xa0, f.maker.cert.Raw) }},
		"revocation lists":               {attest.ReasonMalformed, func(p *parts) { p.more = der(0xa1) }},
		"no signer":                      signers(func([]byte) []byte { return nil }),
		"two signers":                    signers(func(b []byte) []byte { return slices.Concat(b, b) }),
		"a signer of nobody's first":     signers(func(b []byte) []byte { return slices.Concat(der(0x30, one), b) }),
		"a signer without an end":        signers(func(b []byte) []byte { return inf(0x30, b[4:]) }),
		"no content at all":              octets(func([]byte) []byte { return []byte{} }),
		"content of nothing, whole":      octets(func([]byte) []byte { return der(4) }),
		"DER with something more inside": {attest.ReasonMalformed, func(p *parts) {
			p.wrap = der
			p.contentType = slices.Concat(data, der(0xa0, der(4, []byte("{}"))))
		}},
		"DER with something at its end": {attest.ReasonMalformed, func(p *parts) {
			p.wrap = func(tag byte, in ...[]byte) []byte { return der(tag, append(in, null)...) }
			p.octets = der(4, []byte(p.document()))
		}},
		"content of no part":         octets(func([]byte) []byte { return inf(0x24) }),
		"content with an empty part": octets(func(b []byte) []byte { return inf(0x24, der(4, b), der(4)) }),
		"content in parts of parts":  octets(func(b []byte) []byte { return inf(0x24, inf(0x24, der(4, b))) }),
		"content twice":              octets(func(b []byte) []byte { return slices.Concat(der(4, b), der(4, b)) }),
		"content as text":            octets(func(b []byte) []byte { return der(0x0c, b) }),
		"content that goes on behind its end": octets(func(b []byte) []byte {
			return slices.Concat([]byte{0x24, 0x80}, der(4, b), []byte{0, 0}, der(4, b), []byte{0, 0})
		}),
		"another content": {attest.ReasonSignature, func(p *parts) {
			p.attributes = attributesOf(p.document(), "210903212547Z")
			p.set("instanceId", `"`+instance()+`"`)
		}},
	}
}

func badAttributes() map[string]badDocument {
	of := func(why attest.Reason, change func(a [][]byte) [][]byte) badDocument {
		return badDocument{why, func(p *parts) { p.attributes = change(attributesOf(p.document(), "210903212547Z")) }}
	}
	form := func(change func(a [][]byte) [][]byte) badDocument { return of(attest.ReasonMalformed, change) }
	at := func(i int, with ...[]byte) func([][]byte) [][]byte {
		return func(a [][]byte) [][]byte { return slices.Replace(a, i, i+1, with...) }
	}
	guarded := func(in ...[]byte) func([][]byte) [][]byte { return at(2, attribute(protection, der(0x30, in...))) }
	return map[string]badDocument{
		"no attributes":                form(func([][]byte) [][]byte { return [][]byte{} }),
		"attributes of another tag":    {attest.ReasonMalformed, func(p *parts) { p.attributesTag = 0x31 }},
		"no content type":              form(at(0)),
		"no digest":                    form(at(3)),
		"another content type":         form(at(0, attribute(contentType, signedOID))),
		"two content types":            form(at(0, attribute(contentType, data), attribute(contentType, data))),
		"a content type of two values": form(at(0, attribute(contentType, data, data))),
		"a content type of none":       form(at(0, attribute(contentType))),
		"another digest":               of(attest.ReasonSignature, at(3, attribute(digestOf, der(4, make([]byte, 32))))),
		"a digest of 31 bytes":         form(at(3, attribute(digestOf, der(4, make([]byte, 31))))),
		"a digest of 20 bytes":         form(at(3, attribute(digestOf, der(4, make([]byte, 20))))),
		"two digests":                  form(func(a [][]byte) [][]byte { return append(a, a[3]) }),
		"a wrong digest first": form(func(a [][]byte) [][]byte {
			return append([][]byte{attribute(digestOf, der(4, make([]byte, 32)))}, a...)
		}),
		"a digest of two values":         form(at(3, attribute(digestOf, der(4, make([]byte, 32)), der(4, make([]byte, 32))))),
		"a time that is a number":        form(at(1, attribute(signingTime, one))),
		"two times":                      form(at(1, attribute(signingTime, der(0x17, []byte("210903212547Z"))), attribute(signingTime, der(0x17, []byte("210903212547Z"))))),
		"an attribute of nobody's":       form(at(1, attribute(oid(1, 2, 3), one))),
		"an attribute with more":         form(at(1, der(0x30, signingTime, der(0x31, der(0x17, []byte("210903212547Z"))), null))),
		"an attribute without an end":    form(at(1, inf(0x30, signingTime, der(0x31, der(0x17, []byte("210903212547Z")))))),
		"protection of SHA-1":            of(attest.ReasonAlgorithm, guarded(der(0x30, sha1OID, null), der(0xa1, rsaSHA256, null))),
		"protection of RSA with SHA-1":   of(attest.ReasonAlgorithm, guarded(der(0x30, sha256OID, null), der(0xa1, rsaSHA1, null))),
		"protection of a MAC":            form(guarded(der(0x30, sha256OID, null), der(0xa2, rsaSHA256, null))),
		"protection of a digest alone":   form(guarded(der(0x30, sha256OID, null))),
		"protection and something more":  form(guarded(der(0x30, sha256OID, null), der(0xa1, rsaSHA256, null), null)),
		"protection of endless length":   form(at(2, attribute(protection, inf(0x30, der(0x30, sha256OID, null), der(0xa1, rsaSHA256, null))))),
		"the content for the attributes": {attest.ReasonMalformed, func(p *parts) { p.attributes = [][]byte{[]byte(p.document())} }},
	}
}

// TestRefused checks the reason of each rejection. The suite checks the same cases
// without the reasons.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, b := range badDocuments(t, f) {
		if _, err := f.Attest(t.Context(), f.evidence(t, b.spoil)); attesttest.Reason(err) != b.why {
			t.Errorf("%s: got %v, want %q", name, err, b.why)
		}
	}
}

// TestAccepted checks that harmless variations are accepted, so that the rejections are
// not accidental.
func TestAccepted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, change := range map[string]func(*parts){
		"DER":                    func(p *parts) { p.wrap = der },
		"DER, content whole":     func(p *parts) { p.wrap = der; p.octets = der(4, []byte(p.document())) },
		"content whole":          func(p *parts) { p.octets = der(4, []byte(p.document())) },
		"content in three parts": func(p *parts) { p.octets = inPieces(p.document()) },
		"the other name of RSA":  func(p *parts) { p.algorithm = der(0x30, oid(1, 2, 840, 113549, 1, 1, 1), null) },
		"no parameters":          func(p *parts) { p.digests, p.digest = der(0x31, der(0x30, sha256OID)), der(0x30, sha256OID) },
		"no time, no protection": func(p *parts) { a := attributesOf(p.document(), ""); p.attributes = [][]byte{a[0], a[3]} },
		"attributes in another order": func(p *parts) {
			p.attributes = attributesOf(p.document(), "210903212547Z")
			slices.Reverse(p.attributes)
		},
		"a member that AWS adds":  func(p *parts) { p.members = append(p.members, member{"outpostArn", `{"a":[1]}`}) },
		"product codes":           func(p *parts) { p.set("marketplaceProductCodes", `[ "1abc2defghijklm3nopqrs4tu" ]`) },
		"no address":              func(p *parts) { p.set("privateIp", "null") },
		"an address of IPv6":      func(p *parts) { p.set("privateIp", `"2001:DB8:0:0::1"`) },
		"an old instance id":      func(p *parts) { p.set("instanceId", `"i-0123abcd"`) },
		"a local zone":            func(p *parts) { p.set("availabilityZone", `"us-west-2-lax-1a"`) },
		"a launch in a minute":    launched(f.clock.Now().Add(time.Minute)),
		"a launch 4 min 59 s ago": launched(f.clock.Now().Add(-5*time.Minute + time.Second)),
	} {
		id, err := f.Attest(t.Context(), f.evidence(t, change))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if ip := id.Selectors["private_ip"]; strings.Contains(name, "address") && ip != "" && ip != "2001:db8::1" {
			t.Errorf("%s: %q", name, ip)
		}
	}
}
