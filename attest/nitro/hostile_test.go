package nitro_test

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/nitro"
)

// badDocument is one change to a good document, and why it must be refused.
type badDocument struct {
	why   attest.Reason
	spoil func(*document, attest.Key)
}

// badDocuments are for any type. All but those about signatures are signed well.
func badDocuments(f *fixture) map[string]badDocument {
	now := f.clock.Now()
	ms := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	pcrs := "pcrs"
	if f.config.Type == nitro.NitroTPM {
		pcrs = "nitrotpm_pcrs"
	}
	out := map[string]badDocument{
		"no nonce":              {attest.ReasonNonce, set("nonce", nil)},
		"nonce absent":          {attest.ReasonNonce, set("nonce", absent{})},
		"an empty nonce":        {attest.ReasonNonce, set("nonce", []byte{})},
		"a nonce of somebody's": {attest.ReasonNonce, set("nonce", bytes.Repeat([]byte("A"), 75))},
		"a nonce for another key": {attest.ReasonNonce, func(d *document, _ attest.Key) {
			n, _ := f.nonces.Issue("nitro", "another", now)
			d.members["nonce"] = []byte(n)
		}},
		"a nonce for another attestor": {attest.ReasonNonce, func(d *document, k attest.Key) {
			n, _ := f.nonces.Issue("tpm", k.JKT, now)
			d.members["nonce"] = []byte(n)
		}},
		"a nonce of an hour ago": {attest.ReasonExpired, func(d *document, k attest.Key) {
			n, _ := f.nonces.Issue("nitro", k.JKT, now.Add(-time.Hour))
			d.members["nonce"] = []byte(n)
		}},
		"no user_data":                      {attest.ReasonKeyBinding, set("user_data", nil)},
		"user_data of another key":          {attest.ReasonKeyBinding, set("user_data", []byte(strings.Repeat("A", 43)))},
		"user_data with more behind it":     {attest.ReasonKeyBinding, func(d *document, k attest.Key) { d.members["user_data"] = []byte(k.JKT + "\n") }},
		"a clock 5 minutes and more ahead":  {attest.ReasonLifetime, set("timestamp", ms(5*time.Minute+time.Millisecond))},
		"a clock 5 minutes and more behind": {attest.ReasonLifetime, set("timestamp", ms(-5*time.Minute-time.Millisecond))},
		"a timestamp in seconds":            {attest.ReasonLifetime, set("timestamp", now.Unix())},
		"the last timestamp of all":         {attest.ReasonLifetime, set("timestamp", ^uint64(0))},
		"no timestamp":                      {attest.ReasonLifetime, set("timestamp", nil)},
		"a negative timestamp":              {attest.ReasonMalformed, set("timestamp", -1)},
		"a timestamp with a fraction":       {attest.ReasonMalformed, set("timestamp", 1.5)},
		"a timestamp that is simple":        {attest.ReasonMalformed, set("timestamp", cbor.SimpleValue(5))},
		"a timestamp that is true":          {attest.ReasonMalformed, set("timestamp", true)},
		"another digest":                    {attest.ReasonMalformed, set("digest", "SHA256")},
		"no digest":                         {attest.ReasonMalformed, set("digest", absent{})},
		"no module_id":                      {attest.ReasonMalformed, set("module_id", absent{})},
		"a module_id in bytes":              {attest.ReasonMalformed, set("module_id", []byte(enclaveID))},
		"a module_id that hides":            {attest.ReasonMalformed, set("module_id", "i-1\u202e")},
		"a module_id without end":           {attest.ReasonMalformed, set("module_id", strings.Repeat("i", 129))},
		"a public_key too long":             {attest.ReasonMalformed, set("public_key", make([]byte, 1025))},
		"a nonce too long":                  {attest.ReasonMalformed, set("nonce", make([]byte, 1025))},
		"a nonce of text":                   {attest.ReasonMalformed, set("nonce", "text")},
		"a nonce as a list of numbers":      {attest.ReasonMalformed, set("nonce", []int{1, 2})},
		"no certificate":                    {attest.ReasonMalformed, set("certificate", nil)},
		"a certificate of 1025 bytes":       {attest.ReasonMalformed, set("certificate", make([]byte, 1025))},
		"a certificate of garbage":          {attest.ReasonMalformed, set("certificate", []byte("garbage"))},
		"an empty cabundle":                 {attest.ReasonMalformed, set("cabundle", [][]byte{})},
		"no cabundle":                       {attest.ReasonMalformed, set("cabundle", nil)},
		"a cabundle with an empty one":      {attest.ReasonMalformed, set("cabundle", [][]byte{f.pki[0].cert.Raw, {}})},
		"a cabundle of nine":                {attest.ReasonMalformed, set("cabundle", slices.Repeat([][]byte{f.pki[0].cert.Raw}, 9))},
		"a cabundle of a thousand":          {attest.ReasonMalformed, set("cabundle", slices.Repeat([][]byte{{1}}, 1000))},
		"a member that nobody knows":        {attest.ReasonMalformed, set("debug", true)},
		"a member in another case":          {attest.ReasonMalformed, set("Nonce", []byte("x"))},
		"a text that is not UTF-8":          {attest.ReasonMalformed, set("module_id", "\xff")},
		"a register of 33 bytes":            {attest.ReasonMalformed, set(pcrs, map[int][]byte{0: make([]byte, 33)})},
		"a register of none":                {attest.ReasonMalformed, set(pcrs, map[int][]byte{0: nil})},
		"register 32":                       {attest.ReasonMalformed, set(pcrs, map[int][]byte{32: make([]byte, 48)})},
		"register 256":                      {attest.ReasonMalformed, set(pcrs, map[int][]byte{256: make([]byte, 48)})},
		"register -1":                       {attest.ReasonMalformed, set(pcrs, map[int][]byte{-1: make([]byte, 48)})},
		"a register named by text":          {attest.ReasonMalformed, set(pcrs, map[string][]byte{"0": make([]byte, 48)})},
		"registers as a list":               {attest.ReasonMalformed, set(pcrs, [][]byte{make([]byte, 48)})},
		"no registers":                      {attest.ReasonType, set(pcrs, absent{})},
		"registers of nothing":              {attest.ReasonType, set(pcrs, map[int][]byte{})},
	}
	for name, b := range badChains(f) {
		out[name] = b
	}
	for name, b := range badEnvelopes() {
		out[name] = b
	}
	return out
}

// leafOf puts a leaf of another making at the end of the good path.
func leafOf(f *fixture, change ...func(*x509.Certificate)) func(*document, attest.Key) {
	return func(d *document, _ attest.Key) {
		now := f.clock.Now()
		d.chain = slices.Clone(f.pki)
		d.chain[4] = d.chain[3].below(fatal{}, "leaf", now, append([]func(*x509.Certificate){asLeaf(now)}, change...)...)
	}
}

// fatal is a testing.TB for makers that are called without one.
type fatal struct{ testing.TB }

func (fatal) Helper() {}

func (fatal) Fatal(args ...any) { panic(args) }

func badChains(f *fixture) map[string]badDocument {
	now := f.clock.Now()
	tb := fatal{}
	chain := func(c ...*link) func(*document, attest.Key) {
		return func(d *document, _ attest.Key) { d.chain = c }
	}
	p, other := f.pki, newPKI(tb, now)
	leaf := func(l *link) *link { return l.below(tb, "leaf", now, asLeaf(now)) }
	twin := (*link)(nil).below(tb, "aws.nitro-enclaves", now)
	weak := p[2].below(tb, "instance", now, pathLen(0), func(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA256 })
	small := p[2].signs(tb, tmpl("instance", now, true), newKey(tb, elliptic.P256()))
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	same := p[0].below(tb, "region", now)
	again := same.below(tb, "region", now)
	under := p[3].below(tb, "one more", now, pathLen(0))
	return map[string]badDocument{
		"another root":                     {attest.ReasonIssuer, chain(other...)},
		"another root of the same name":    {attest.ReasonIssuer, chain(twin, p[1], p[2], p[3], p[4])},
		"a path that ends at another root": {attest.ReasonIssuer, chain(p[0], other[1], other[2], other[3], other[4])},
		"the root last":                    {attest.ReasonIssuer, chain(p[3], p[2], p[1], p[0], p[4])},
		"two in the wrong order":           {attest.ReasonIssuer, chain(p[0], p[2], p[1], p[3], p[4])},
		"one missing":                      {attest.ReasonIssuer, chain(p[0], p[1], p[3], p[4])},
		"one twice":                        {attest.ReasonIssuer, chain(p[0], p[1], p[2], p[2], p[3], p[4])},
		"the root twice":                   {attest.ReasonIssuer, chain(p[0], p[0], p[1], p[2], p[3], p[4])},
		"one too many":                     {attest.ReasonIssuer, chain(p[0], p[1], other[1], p[2], p[3], p[4])},
		"a path beyond its length":         {attest.ReasonIssuer, chain(p[0], p[1], p[2], p[3], under, leaf(under))},
		"a leaf that issues":               {attest.ReasonIssuer, chain(p[0], p[1], p[2], p[3], p[4], p[4].below(tb, "below", now, asLeaf(now)))},
		"a CA as leaf":                     {attest.ReasonIssuer, chain(p[0], p[1], p[2], p[3])},
		"the root as leaf":                 {attest.ReasonIssuer, func(d *document, _ attest.Key) { d.chain = pki{p[0], p[0]} }},
		"a leaf that is a CA for nothing":  {attest.ReasonIssuer, leafOf(f, func(c *x509.Certificate) { c.IsCA, c.MaxPathLen = true, -1 })},
		"two of one name":                  {attest.ReasonIssuer, chain(p[0], same, again, leaf(again))},
		"a leaf of more than 1024 bytes": {attest.ReasonMalformed, leafOf(f, func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Value: append([]byte{4, 0x82, 2, 0xbc}, make([]byte, 700)...)}}
		})},
		"a leaf that may sign certificates": {attest.ReasonIssuer, leafOf(f, func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign })},
		"a leaf that may not sign":          {attest.ReasonIssuer, leafOf(f, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement })},
		"a leaf with an unknown critical extension": {attest.ReasonIssuer, leafOf(f, func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
		})},
		"a leaf that expired a second ago": {attest.ReasonExpired, leafOf(f, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.Add(-time.Second) })},
		"a leaf that expires now":          {attest.ReasonExpired, leafOf(f, func(c *x509.Certificate) { c.NotAfter = now })},
		"a leaf that is valid in a second": {attest.ReasonNotYetValid, leafOf(f, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Second) })},
		"an instance that expired": {attest.ReasonExpired, func(d *document, _ attest.Key) {
			old := p[2].below(tb, "instance", now, pathLen(0), func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) })
			d.chain = pki{p[0], p[1], p[2], old, leaf(old)}
		}},
		"a leaf of P-256":               {attest.ReasonAlgorithm, chain(p[0], p[1], p[2], p[3], p[3].signs(tb, tmpl("leaf", now, false), newKey(tb, elliptic.P256())))},
		"a leaf of P-521":               {attest.ReasonAlgorithm, chain(p[0], p[1], p[2], p[3], p[3].signs(tb, tmpl("leaf", now, false), newKey(tb, elliptic.P521())))},
		"a leaf of RSA":                 {attest.ReasonAlgorithm, chain(p[0], p[1], p[2], p[3], p[3].signs(tb, tmpl("leaf", now, false), rsaKey))},
		"an issuer of P-256":            {attest.ReasonAlgorithm, chain(p[0], p[1], p[2], small, leafBy(small, now))},
		"an issuer signed with SHA-256": {attest.ReasonAlgorithm, chain(p[0], p[1], p[2], weak, leaf(weak))},
	}
}

func tmpl(name string, now time.Time, ca bool) *x509.Certificate {
	c := &x509.Certificate{SerialNumber: big.NewInt(9), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		BasicConstraintsValid: true, IsCA: ca, MaxPathLen: -1, KeyUsage: x509.KeyUsageDigitalSignature, SignatureAlgorithm: x509.ECDSAWithSHA384}
	if ca {
		c.KeyUsage |= x509.KeyUsageCertSign
	}
	return c
}

func leafBy(l *link, now time.Time) *link {
	return l.signs(fatal{}, tmpl("leaf", now, false), newKey(fatal{}, elliptic.P384()))
}

func badEnvelopes() map[string]badDocument {
	protected := func(b ...byte) func(*document, attest.Key) {
		return func(d *document, _ attest.Key) { d.protected = b }
	}
	outer := func(change func([]byte) []byte) func(*document, attest.Key) {
		return func(d *document, _ attest.Key) { d.outer = change }
	}
	payload := func(change func([]byte) []byte) func(*document, attest.Key) {
		return func(d *document, _ attest.Key) { d.payload = change }
	}
	headers := func(h any) func(*document, attest.Key) {
		return func(d *document, _ attest.Key) { d.headers = h }
	}
	put := func(text string) func([]byte) []byte {
		return func([]byte) []byte { b, _ := hex.DecodeString(text); return b }
	}
	return map[string]badDocument{
		"ES256":                        {attest.ReasonAlgorithm, protected(0xa1, 0x01, 0x26)},
		"ES512":                        {attest.ReasonAlgorithm, protected(0xa1, 0x01, 0x38, 0x23)},
		"no algorithm":                 {attest.ReasonAlgorithm, protected(0xa0)},
		"no protected header":          {attest.ReasonAlgorithm, protected()},
		"the algorithm written longer": {attest.ReasonAlgorithm, protected(0xa1, 0x01, 0x39, 0x00, 0x22)},
		"a crit header":                {attest.ReasonAlgorithm, protected(0xa2, 0x01, 0x38, 0x22, 0x02, 0x81, 0x01)},
		"the algorithm in the open":    {attest.ReasonAlgorithm, func(d *document, _ attest.Key) { d.protected, d.headers = []byte{0xa0}, map[int]int{1: -35} }},
		"the algorithm twice":          {attest.ReasonAlgorithm, headers(map[int]int{1: -35})},
		"a key id in the open":         {attest.ReasonAlgorithm, headers(map[int][]byte{4: []byte("x")})},
		"headers that are null":        {attest.ReasonAlgorithm, headers(nil)},
		"signed with SHA-256":          {attest.ReasonSignature, func(d *document, _ attest.Key) { d.hash = crypto.SHA256 }},
		"signed by another key":        {attest.ReasonSignature, func(d *document, _ attest.Key) { d.key = newKey(fatal{}, elliptic.P384()) }},
		"signed by its issuer":         {attest.ReasonSignature, func(d *document, _ attest.Key) { d.key = d.chain[len(d.chain)-2].key }},
		"a signature of zeros":         {attest.ReasonSignature, outer(func(b []byte) []byte { return append(b[:len(b)-96:len(b)-96], make([]byte, 96)...) })},
		"a signature of ones":          {attest.ReasonSignature, outer(func(b []byte) []byte { return append(b[:len(b)-96:len(b)-96], bytes.Repeat([]byte{0xff}, 96)...) })},
		"a signature of 64 bytes":      {attest.ReasonSignature, outer(func(b []byte) []byte { b = b[:len(b)-32]; b[len(b)-65] = 64; return b })},
		"the payload encoded again": {attest.ReasonSignature, func(d *document, _ attest.Key) {
			d.signed = func(b []byte) []byte { return append([]byte{0xa0 + byte(len(d.members))}, b[1:len(b)-1]...) }
		}},
		"the payload of nothing":        {attest.ReasonMalformed, func(d *document, _ attest.Key) { d.signed = func([]byte) []byte { return nil } }},
		"a signature of nothing":        {attest.ReasonSignature, outer(func(b []byte) []byte { return append(b[:len(b)-98:len(b)-98], 0x40) })},
		"a signature of 97 bytes":       {attest.ReasonSignature, outer(func(b []byte) []byte { b = slices.Insert(b, len(b)-48, 0); b[len(b)-98] = 97; return b })},
		"a member in a tag":             {attest.ReasonMalformed, set("digest", cbor.Tag{Number: 99, Content: "SHA384"})},
		"a member in capitals":          {attest.ReasonMalformed, func(d *document, _ attest.Key) { delete(d.members, "public_key"); d.members["PUBLIC_KEY"] = nil }},
		"a tag":                         {attest.ReasonMalformed, outer(func(b []byte) []byte { return append([]byte{0xd2}, b...) })},
		"two tags":                      {attest.ReasonMalformed, outer(func(b []byte) []byte { return append([]byte{0xd9, 0xd9, 0xf7, 0xd2}, b...) })},
		"more behind it":                {attest.ReasonMalformed, outer(func(b []byte) []byte { return append(b, 0) })},
		"twice":                         {attest.ReasonMalformed, outer(func(b []byte) []byte { return append(b, b...) })},
		"an array of five":              {attest.ReasonMalformed, outer(func(b []byte) []byte { b[0] = 0x85; return append(b, 0xa0) })},
		"an array of three":             {attest.ReasonMalformed, outer(put("8344a1013822a040"))},
		"an array of indefinite length": {attest.ReasonMalformed, outer(func(b []byte) []byte { b[0] = 0x9f; return append(b, 0xff) })},
		"an array with a long length":   {attest.ReasonMalformed, outer(func(b []byte) []byte { return append([]byte{0x98, 0x04}, b[1:]...) })},
		"an array of four billion":      {attest.ReasonMalformed, outer(func(b []byte) []byte { return append([]byte{0x9a, 0xff, 0xff, 0xff, 0xff}, b[1:]...) })},
		"a byte string of everything":   {attest.ReasonMalformed, outer(put("845bffffffffffffffff"))},
		"a protected header in pieces":  {attest.ReasonMalformed, outer(func(b []byte) []byte { return append([]byte{0x84, 0x5f, 0x44, 0xa1, 0x01, 0x38, 0x22, 0xff}, b[6:]...) })},
		"a protected header as a list": {attest.ReasonMalformed, outer(func(b []byte) []byte {
			return append([]byte{0x84, 0x84, 0x18, 0xa1, 0x01, 0x18, 0x38, 0x18, 0x22}, b[6:]...)
		})},
		"a protected header that is text": {attest.ReasonMalformed, outer(func(b []byte) []byte { b[1] = 0x64; return b })},
		"deep":                            {attest.ReasonMalformed, outer(func([]byte) []byte { return bytes.Repeat([]byte{0x81}, 10_000) })},
		"a deep payload":                  {attest.ReasonMalformed, payload(func([]byte) []byte { return bytes.Repeat([]byte{0x81}, 10_000) })},
		"a payload with a member twice":   {attest.ReasonMalformed, payload(func(b []byte) []byte { return indefinite(append(b, append([]byte{0x66}, "digest\x66SHA384"...)...)) })},
		"a payload with more behind it":   {attest.ReasonMalformed, payload(func(b []byte) []byte { return append(indefinite(b), 0) })},
		"a payload with a tag":            {attest.ReasonMalformed, payload(func(b []byte) []byte { return append([]byte{0xc1}, b...) })},
		"a payload that is a list":        {attest.ReasonMalformed, payload(put("80"))},
		"a payload that is null":          {attest.ReasonMalformed, payload(put("f6"))},
		"a payload of a billion members":  {attest.ReasonMalformed, payload(put("ba40000000"))},
		"a cabundle of a billion":         {attest.ReasonMalformed, payload(put("a168636162756e646c659a40000000"))},
		"a payload without its end":       {attest.ReasonMalformed, payload(func(b []byte) []byte { return indefinite(b)[:len(b)] })},
	}
}

func TestBadDocuments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cases := badDocuments(f)
	registers := func(change func(map[uint8][]byte)) func(*document, attest.Key) {
		return func(d *document, _ attest.Key) { change(d.members["pcrs"].(map[uint8][]byte)) } //nolint:forcetypeassert // ours
	}
	for name, change := range map[string]func(map[uint8][]byte){
		"debug mode":           func(m map[uint8][]byte) { m[0], m[1], m[2] = make([]byte, 48), make([]byte, 48), make([]byte, 48) },
		"a kernel of zeros":    func(m map[uint8][]byte) { m[1] = make([]byte, 48) },
		"no register 2":        func(m map[uint8][]byte) { delete(m, 2) },
		"no pinned register":   func(m map[uint8][]byte) { delete(m, 0) },
		"another image":        func(m map[uint8][]byte) { m[0] = register("another") },
		"the image by SHA-256": func(m map[uint8][]byte) { m[0] = m[0][:32] },
	} {
		cases[name] = badDocument{attest.ReasonMeasurement, registers(change)}
	}
	cases["registers of both types"] = badDocument{attest.ReasonType, set("nitrotpm_pcrs", map[int][]byte{4: register("4")})}
	cases["registers of the other type"] = badDocument{attest.ReasonType, func(d *document, _ attest.Key) {
		d.members["nitrotpm_pcrs"] = d.members["pcrs"]
		delete(d.members, "pcrs")
	}}
	for name, b := range cases {
		e := f.evidence(t, b.spoil)
		if id, err := f.a.Attest(t.Context(), e); attesttest.Reason(err) != b.why || id.Subject != "" {
			t.Errorf("%s: got %+v, %v, want %s", name, id, err, b.why)
		}
	}
}

// TestDebugMode: debug mode, in which registers 0 to 2 are zero, is refused even if no
// register is pinned. These zeros cannot be pinned.
func TestDebugMode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *nitro.Config) { c.PCRs, c.RegisteredPCRs = nil, true })
	e := f.evidence(t, func(d *document, _ attest.Key) {
		d.members["pcrs"] = map[int][]byte{0: make([]byte, 48), 1: make([]byte, 48), 2: make([]byte, 48), 3: register("3")}
	})
	if _, err := f.a.Attest(t.Context(), e); attesttest.Reason(err) != attest.ReasonMeasurement {
		t.Errorf("got %v", err)
	}
}

// TestSomebodyElses: a document is valid for one key, one attestor and one ebb.
func TestSomebodyElses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.evidence(t)
	stolen := e
	stolen.Key = attesttest.NewKey(t)
	if _, err := f.a.Attest(t.Context(), stolen); attesttest.Reason(err) != attest.ReasonNonce {
		t.Errorf("another key: %v", err)
	}
	stolen.Key = attest.Key{X5T: "x"}
	if _, err := f.a.Attest(t.Context(), stolen); attesttest.Reason(err) != attest.ReasonNonce {
		t.Errorf("no key: %v", err)
	}
	c := f.config
	c.Name = "other"
	if _, err := open(t, c).Attest(t.Context(), e); attesttest.Reason(err) != attest.ReasonNonce {
		t.Errorf("another attestor: %v", err)
	}
	c = f.config
	c.Nonces = newNonces(t, 2)
	if _, err := open(t, c).Attest(t.Context(), e); attesttest.Reason(err) != attest.ReasonNonce {
		t.Errorf("another ebb: %v", err)
	}
	c = f.config
	c.RootSHA256 = ""
	if _, err := open(t, c).Attest(t.Context(), e); attesttest.Reason(err) != attest.ReasonIssuer {
		t.Errorf("with the root of AWS: %v", err)
	}
	if _, err := f.a.Attest(t.Context(), e); err != nil {
		t.Errorf("its own: %v", err)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.evidence(t)
	raw, err := base64.StdEncoding.DecodeString(string(e.Document))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		text []byte
		why  attest.Reason
	}{
		"bytes":          {raw, attest.ReasonMalformed},
		"hex":            {[]byte(hex.EncodeToString(raw)), attest.ReasonMalformed},
		"lines":          {append(append(slices.Clone(e.Document[:64]), '\n'), e.Document[64:]...), attest.ReasonMalformed},
		"base64url":      {[]byte(base64.RawURLEncoding.EncodeToString(append(raw, 0xfb, 0xff))), attest.ReasonMalformed},
		"not padded":     {[]byte(base64.RawStdEncoding.EncodeToString(append(raw, 0)[:len(raw)-len(raw)%3+1])), attest.ReasonMalformed},
		"nothing":        {nil, attest.ReasonMalformed},
		"32 KiB":         {bytes.Repeat([]byte("A"), 32<<10), attest.ReasonMalformed},
		"32 KiB and one": {bytes.Repeat([]byte("A"), 32<<10+1), attest.ReasonOversized},
	} {
		if _, err := f.a.Attest(t.Context(), attest.Evidence{Document: tt.text, Key: e.Key}); attesttest.Reason(err) != tt.why {
			t.Errorf("%s: %v, want %s", name, err, tt.why)
		}
	}
}
