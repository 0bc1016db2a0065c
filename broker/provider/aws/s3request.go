package aws

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// s3Request is what a request asks of S3: one object, or the listing of a bucket.
type s3Request struct {
	region, bucket string
	key            string // "" = the bucket itself
	action         string // of scopes
	prefix         string // that is listed
}

// s3Region is the form of regions in names of hosts.
var s3Region = regexp.MustCompile(`^[a-z]{2}(?:-[a-z]+)+-[0-9]$`)

const (
	amazon     = ".amazonaws.com"
	usEast     = "us-east-1"
	s3Service  = "s3"
	httpsPort  = 443
	listPrefix = "prefix"
)

// s3At is the region and the bucket that a host of S3 names; bucket is "" where the path names
// it. Of AWS's names those of regions are known, and the two that are older; what else lies
// below (access points, websites, accelerated and dual-stack endpoints) is none.
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

// readS3 reads what a request asks of S3, if that is something that a scope can be for.
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

// widens reports headers by which an operation reads or changes something else: the source of
// a copy, access lists, tags, locks, who owns it or pays.
func widens(name string) bool {
	name = stricturl.Fold(name)
	return slices.ContainsFunc([]string{"x-amz-copy-source", "x-amz-acl", "x-amz-grant-", "x-amz-tagging", "x-amz-object-lock-", "x-amz-bypass-", "x-amz-website-", "x-amz-request-payer", "x-amz-expected-bucket-owner", "x-amz-mfa"},
		func(p string) bool { return strings.HasPrefix(name, p) })
}

// operation is one of S3's, told by its method and the parameters of its query.
type operation struct {
	method string
	must   []string // parameters that make it this one
	may    []string // those that it can have besides; x-id names the operation, for logs
	action string
}

// onObjects and onBuckets are the operations that scopes are for. Any other parameter makes a
// request another operation: of versions, access lists, tags, policies.
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

// actionOf is what an operation is to scopes; "" = no scope is for it.
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

// of reports whether a scope is for the request.
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
