package aws

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Injects implements provider.Injector: for objects and listings of S3. Host, method and path do
// not identify the requests of other statements, nor copies, whose source is in a header.
func (d *Driver) Injects(set scopes.Set) bool {
	return d.Check(set) == nil && !slices.ContainsFunc(set.Scopes(), func(s scopes.Scope) bool {
		_, err := placeOf(s)
		return err != nil || !slices.Contains([]string{actRead, actWrite, actList, actDelete}, s.Action())
	})
}

// signable returns the operation of S3 that a request performs, and its payload hash, if the
// request can be signed again.
func (d *Driver) signable(r *http.Request) (q s3Request, payload string, err error) {
	if q, err = d.readS3(r); err != nil {
		return q, "", err
	}
	if said := r.Header.Get("Authorization"); said != "" {
		if m := claimForm.FindStringSubmatch(said); m == nil || m[1] != q.region || m[2] != s3Service {
			return q, "", provider.Elsewhere("it is signed for another service or region than it goes to")
		}
	}
	payload = unsigned
	if values := r.Header.Values(payloadHeader); len(values) > 0 {
		payload = values[0]
		if len(values) > 1 || !payloadForm.MatchString(payload) {
			return q, "", provider.Elsewhere("its payload is signed chunk by chunk, or not at all as S3 has it")
		}
	}
	return q, payload, nil
}

// ScopesFor implements provider.Injector: the narrowest scope that a role covers.
func (d *Driver) ScopesFor(name string, r *http.Request) []scopes.Scope {
	q, _, err := d.signable(r)
	if err != nil {
		return nil
	}
	at := q.key
	if q.action == actList {
		at = q.prefix
	}
	for _, s := range provider.Enclosing(name, append([]string{q.bucket}, strings.Split(at, "/")...), q.action) {
		if set, err := scopes.NewSet(s); err == nil && q.of(s) && d.Injects(set) {
			return []scopes.Scope{s}
		}
	}
	return nil
}

// claimForm matches the signature of a client in the sandbox. The signature proves nothing,
// because the client signs with a made-up key. Its region and service are those that the
// client expects.
var claimForm = lazyregexp.New(`^AWS4-HMAC-SHA256 Credential=[^/, ]+/[0-9]{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request,`)

// payloadForm matches a payload hash, which the client states and S3 checks, or one of two
// values for a payload that only TLS protects. Streams with signed chunks cannot be
// forwarded, because the client signs them with its made-up key.
var payloadForm = lazyregexp.New(`^(?:[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER)$`)

const (
	payloadHeader = "X-Amz-Content-Sha256"
	unsigned      = "UNSIGNED-PAYLOAD"
)

// Inject implements provider.Injector. It removes the client's signature and signs the whole
// request again (AWS Signature Version 4) with the session of the lease. Presigned URLs do
// not reach Inject: egress refuses a query that contains a credential.
func (d *Driver) Inject(ctx context.Context, r *http.Request, t provider.Target) error {
	h, err := readHandle(t.Handle)
	if err != nil || h.Key == nil || !t.Now.Before(t.ExpiresAt) {
		return errors.Join(errors.New("aws: there is no session to sign with, or its lease has ended"), err)
	}
	q, payload, err := d.signable(r)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(t.Scopes.Scopes(), q.of) {
		return provider.Elsewhere("it is not for what the lease's scopes are for")
	}
	out := r.Clone(ctx)
	for name := range out.Header {
		if slices.Contains([]string{"authorization", "date", "x-amz-date", "x-amz-security-token"}, stricturl.Fold(name)) {
			delete(out.Header, name)
		}
	}
	provider.SetHeader(out, payloadHeader, payload)
	key := sdk.Credentials{AccessKeyID: h.Key.ID, SecretAccessKey: h.Key.Secret, SessionToken: h.Key.Token}
	// Each request has its own signer: a shared one signs with the options of another
	// request.
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	if err := signer.SignHTTP(ctx, key, out, payload, s3Service, q.region, d.now()); err != nil {
		return errors.New("aws: the request could not be signed") // err may contain parts of the request
	}
	r.Header = out.Header
	return nil
}

// s3Request is the operation of a request on S3: on one object, or the listing of a bucket.
type s3Request struct {
	region, bucket string
	key            string // "" for the bucket itself
	action         string // the action of a scope
	prefix         string // the listed prefix
}

// s3Region matches the regions in host names.
var s3Region = lazyregexp.New(`^[a-z]{2}(?:-[a-z]+)+-[0-9]$`)

const (
	amazon     = ".amazonaws.com"
	usEast     = "us-east-1"
	s3Service  = "s3"
	httpsPort  = 443
	listPrefix = "prefix"
)

// s3At returns the region and the bucket that a host name of S3 has; bucket is "" when the
// path has it. Of AWS's names it knows the regional ones and the two older ones. Others
// (access points, websites, accelerated and dual-stack endpoints) are not supported.
func (d *Driver) s3At(h stricturl.Host) (region, bucket string, is bool) {
	if d.flavor != flavorAWS {
		u, err := url.Parse(d.cfg.Endpoint)
		if err != nil || u.Scheme != "https" {
			return "", "", false
		}
		at, err := stricturl.ParseHost(u.Host, httpsPort)
		return d.cfg.Region, "", err == nil && at == h
	}
	rest, below := strings.CutSuffix(h.Name, amazon)
	if !below || h.Port != httpsPort {
		return "", "", false
	}
	labels := strings.Split(rest, ".")
	n := len(labels)
	switch {
	case n >= 2 && labels[n-2] == s3Service && s3Region.MatchString(labels[n-1]):
		region, labels = labels[n-1], labels[:n-2]
	case labels[n-1] == s3Service:
		region, labels = usEast, labels[:n-1]
	default:
		return "", "", false
	}
	bucket = strings.Join(labels, ".")
	return region, bucket, bucket == "" || bucketForm.MatchString(bucket)
}

// readS3 returns the operation of a request, if a scope can cover it.
func (d *Driver) readS3(r *http.Request) (s3Request, error) {
	host, err := stricturl.Origin(r)
	if err != nil {
		return s3Request{}, provider.Elsewhere(err.Error())
	}
	q := s3Request{}
	var is bool
	if q.region, q.bucket, is = d.s3At(host); !is {
		return q, provider.Elsewhere("its host is none of S3")
	}
	path, err := stricturl.Target(r, stricturl.PathForm{Text: true})
	if err != nil {
		return q, provider.Elsewhere(err.Error())
	}
	if q.bucket == "" {
		q.bucket, path = path[0], path[1:]
	}
	q.key = strings.Join(path, "/")
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !bucketForm.MatchString(q.bucket) {
		return q, provider.Elsewhere("it names no bucket")
	}
	for name := range r.Header {
		if widens(name) {
			return q, provider.Elsewhere("a header asks for more than its action")
		}
	}
	if q.action = actionOf(r.Method, q.key, query); q.action == "" {
		return q, provider.Elsewhere("it is no operation of S3 that a scope is for")
	}
	q.prefix = query.Get(listPrefix)
	return q, nil
}

// widens reports whether a header makes an operation read or change something else: the
// source of a copy, access lists, tags, locks, the owner or the payer.
func widens(name string) bool {
	name = stricturl.Fold(name)
	return slices.ContainsFunc([]string{"x-amz-copy-source", "x-amz-acl", "x-amz-grant-", "x-amz-tagging", "x-amz-object-lock-", "x-amz-bypass-", "x-amz-website-", "x-amz-request-payer", "x-amz-expected-bucket-owner", "x-amz-mfa"},
		func(p string) bool { return strings.HasPrefix(name, p) })
}

// operation is an operation of S3, identified by its method and query parameters.
type operation struct {
	method string
	must   []string // parameters that identify it
	may    []string // further allowed parameters; x-id names the operation for logs
	action string
}

// onObjects and onBuckets are the operations that scopes cover. Any other parameter makes a
// request another operation, such as on versions, access lists, tags or policies.
var (
	onObjects = []operation{
		{"GET", nil, []string{"x-id", "partNumber"}, actRead},
		{"HEAD", nil, []string{"x-id", "partNumber"}, actRead},
		{"GET", []string{"uploadId"}, []string{"x-id", "max-parts", "part-number-marker"}, actWrite},
		{"PUT", nil, []string{"x-id"}, actWrite},
		{"PUT", []string{"partNumber", "uploadId"}, []string{"x-id"}, actWrite},
		{"POST", []string{"uploads"}, []string{"x-id"}, actWrite},
		{"POST", []string{"uploadId"}, []string{"x-id"}, actWrite},
		{"DELETE", []string{"uploadId"}, []string{"x-id"}, actWrite},
		{"DELETE", nil, []string{"x-id"}, actDelete},
	}
	onBuckets = []operation{
		{"GET", nil, []string{"x-id", "list-type", listPrefix, "delimiter", "max-keys", "continuation-token", "start-after", "marker", "encoding-type", "fetch-owner"}, actList},
	}
)

// actionOf returns the scope action of an operation, "" when no scope covers it.
func actionOf(method, key string, query url.Values) string {
	all := onObjects
	if key == "" {
		all = onBuckets
	}
	for _, o := range all {
		if o.method == method && o.is(query) {
			return o.action
		}
	}
	return ""
}

func (o operation) is(query url.Values) bool {
	for name, values := range query {
		if len(values) != 1 || !slices.Contains(o.must, name) && !slices.Contains(o.may, name) {
			return false
		}
	}
	return !slices.ContainsFunc(o.must, func(name string) bool { _, has := query[name]; return !has })
}

// of reports whether a scope covers the request.
func (q s3Request) of(s scopes.Scope) bool {
	if s.Action() != q.action {
		return false
	}
	p, err := placeOf(s)
	if err != nil || p.bucket != q.bucket {
		return false
	}
	if q.action == actList {
		return p.deep && strings.HasPrefix(q.prefix, p.key)
	}
	return q.key == p.key || p.deep && strings.HasPrefix(q.key, p.key)
}
