package aws

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// The actions of S3 scopes.
const (
	actRead    = "read"
	actWrite   = "write"
	actList    = "list"
	actDelete  = "delete"
	actPromote = "promote"
)

var s3Actions = []string{actRead, actWrite, actList, actDelete, actPromote}

// objectActions are the IAM actions for objects. Versions, ACLs, tags and locks are left out: an
// operator who needs them configures a statement.
var objectActions = map[string][]string{
	actRead:   {"s3:GetObject"},
	actWrite:  {"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"},
	actDelete: {"s3:DeleteObject"},
}

// bucketForm matches the names that S3 accepts for new buckets.
var bucketForm = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// place is what an S3 scope covers: the object with that key or, when deep, all objects
// whose keys begin with it.
type place struct {
	bucket string
	key    string // ends with "/" when deep; "" and deep is the whole bucket
	deep   bool
}

func placeOf(s scopes.Scope) (place, error) {
	segments := s.Segments()
	p := place{bucket: segments[0]}
	if !bucketForm.MatchString(p.bucket) {
		return place{}, fmt.Errorf("%w: %s: the first part must be the name of one bucket", provider.ErrUnsupported, s)
	}
	rest := segments[1:]
	if len(rest) > 0 && rest[len(rest)-1] == scopes.Rest {
		p.deep, rest = true, rest[:len(rest)-1]
	}
	if slices.Contains(rest, scopes.Any) {
		return place{}, fmt.Errorf("%w: %s: AWS has no pattern for one path segment: name the object, or cover everything below with /**", provider.ErrUnsupported, s)
	}
	p.key = strings.Join(rest, "/")
	if p.deep && p.key != "" {
		p.key += "/"
	}
	if p.key == "" && !p.deep {
		return place{}, fmt.Errorf("%w: %s: name an object, or cover everything in the bucket with /**", provider.ErrUnsupported, s)
	}
	return p, nil
}

// pattern returns the objects of p, after their bucket, in IAM's form.
func (p place) pattern() string {
	if p.deep {
		return literal(p.bucket+"/"+p.key) + "*"
	}
	return literal(p.bucket + "/" + p.key)
}

func objectARN(partition string, p place) string { return "arn:" + partition + ":s3:::" + p.pattern() }

// listings maps buckets to the prefixes that may be listed. One condition covers all
// prefixes of a bucket.
type listings map[string][]string

func (l listings) permissions(partition string) []permission {
	var out []permission
	for _, bucket := range slices.Sorted(maps.Keys(l)) {
		p := permission{actions: []string{"s3:ListBucket"}, resources: []string{"arn:" + partition + ":s3:::" + literal(bucket)}}
		if prefixes := slices.Compact(slices.Sorted(slices.Values(l[bucket]))); !slices.Contains(prefixes, "*") {
			p.when = conditions{"StringLike": {"s3:prefix": prefixes}}
		}
		out = append(out, p)
	}
	return out
}

func (d *Driver) s3Permissions(s scopes.Scope, partition string, lists listings) ([]permission, error) {
	p, err := placeOf(s)
	if err != nil {
		return nil, err
	}
	if err := d.inAreas(s); err != nil {
		return nil, err
	}
	switch s.Action() {
	case actList:
		if !p.deep {
			return nil, fmt.Errorf("%w: %s: a listing covers all keys with a prefix: end the resource with /**", provider.ErrUnsupported, s)
		}
		lists[p.bucket] = append(lists[p.bucket], literal(p.key)+"*")
		return nil, nil
	case actPromote:
		return d.promotion(s, p, partition)
	}
	return []permission{{actions: objectActions[s.Action()], resources: []string{objectARN(partition, p)}}}, nil
}

// promotion returns the permissions of CopyObject from an area's source to the place: to read the
// source, and to write only copies of it.
func (d *Driver) promotion(s scopes.Scope, to place, partition string) ([]permission, error) {
	for _, a := range d.areas {
		if !slices.Contains(a.actions, actPromote) || !a.whole(d.cfg.Name, actPromote).Covers(s) {
			continue
		}
		from := place{bucket: a.from.bucket, key: a.from.key + strings.TrimPrefix(to.key, a.place.key), deep: to.deep}
		source := from.bucket + "/" + from.key
		end := ""
		if from.deep {
			end = "*"
		}
		// The condition compares the header as the client has encoded it.
		var headers many
		for _, h := range []string{source, (&url.URL{Path: source}).EscapedPath(), strictEscape(source)} {
			headers = append(headers, literal(h)+end, "/"+literal(h)+end)
		}
		slices.Sort(headers)
		return []permission{
			{actions: objectActions[actRead], resources: []string{objectARN(partition, from)}},
			{actions: []string{"s3:PutObject"}, resources: []string{objectARN(partition, to)},
				when: conditions{"StringLike": {"s3:x-amz-copy-source": slices.Compact(headers)}}},
		}, nil
	}
	return nil, fmt.Errorf("%w: %s: no configured area has promote for it", provider.ErrUnsupported, s)
}

// strictEscape escapes all characters except unreserved ones and slashes, as SDKs do.
func strictEscape(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.QueryEscape(p), "+", "%20")
	}
	return strings.Join(parts, "/")
}

// area is a checked Area; its places are deep.
type area struct {
	prefix  string // as configured
	place   place
	actions []string
	from    place
}

// whole returns the scope for everything in the area with one action.
func (a area) whole(name, action string) scopes.Scope {
	s, _ := scopes.New(name, a.prefix+"/"+scopes.Rest, action) // checked at load; a zero scope covers nothing
	return s
}

// inAreas refuses a scope that overlaps an area with an action that the area does not allow.
func (d *Driver) inAreas(s scopes.Scope) error {
	for _, a := range d.areas {
		if !slices.Contains(a.actions, s.Action()) && a.whole(d.cfg.Name, s.Action()).Overlaps(s) {
			return fmt.Errorf("%w: %s: %s allows only %s", provider.ErrUnsupported, s, a.prefix, strings.Join(a.actions, ", "))
		}
	}
	return nil
}

func (c Config) readAreas(ps *problems) []area {
	var out []area
	deep := func(i int, key, prefix string) place {
		s, err := scopes.New(c.Name, prefix+"/"+scopes.Rest, actRead)
		if err == nil {
			var p place
			if p, err = placeOf(s); err == nil {
				return p
			}
		}
		ps.add("areas[%d].%s: %q is not bucket or bucket/prefix", i, key, prefix)
		return place{}
	}
	for i, a := range c.Areas {
		one := area{prefix: a.Prefix, place: deep(i, "prefix", a.Prefix), actions: a.Actions}
		for _, act := range a.Actions {
			if !slices.Contains(s3Actions, act) {
				ps.add("areas[%d].actions: %q is none of %s", i, act, strings.Join(s3Actions, ", "))
			}
		}
		if promotes := slices.Contains(a.Actions, actPromote); promotes != (a.From != "") {
			ps.add("areas[%d]: promote and from go together", i)
		} else if promotes {
			one.from = deep(i, "from", a.From)
		}
		for j, other := range out {
			if one.whole(c.Name, actRead).Overlaps(other.whole(c.Name, actRead)) {
				ps.add("areas[%d] lies in areas[%d], or around it: which rules would hold?", i, j)
			}
		}
		out = append(out, one)
	}
	return out
}

// statement is a checked Statement.
type statement struct {
	Statement
	serves scopes.Scope
	depth  int  // segments of Resource before **
	rest   bool // Resource ends in **
}

var (
	iamAction   = lazyregexp.New(`^([a-z0-9-]{1,64}):([A-Za-z0-9*?]{1,128})$`)
	operator    = lazyregexp.New(`^(ForAllValues:|ForAnyValue:)?[A-Za-z]{3,40}$`)
	conditionOn = lazyregexp.New(`^[A-Za-z0-9-]{1,64}:[\x21\x23-\x5b\x5d-\x7e]{1,128}$`)
	printable   = lazyregexp.New(`^[\x20-\x7e]{1,512}$`)

	placeholder = regexp.MustCompile(`\{([0-9]{1,2}|rest)\}`)
	// adjacent matches two placeholders that a resource could not keep apart, so that two
	// scopes would name one resource: no segment contains "/" or ":".
	adjacent = lazyregexp.New(`\{(?:[0-9]{1,2}|rest)\}[^/:]*\{(?:[0-9]{1,2}|rest)\}`)
	variable = lazyregexp.New(`\$\{(?:[0-9]{1,2}|rest)\}`)
)

// identities are services that issue identities or change permissions. A session that could use
// them would have effects after its lease.
var identities = []string{"iam", "sts", "rolesanywhere", "sso", "sso-admin", "sso-directory", "sso-oauth", "identitystore", "organizations", "signin", "account"}

// reservedKeys are conditions that only the driver sets.
var reservedKeys = []string{"aws:currenttime", "aws:sourceip", "aws:sourcevpce"}

// vendors are actions of other services, in lower case, whose responses hold a credential with its
// own lifetime. A denial of the session does not end such a credential.
var vendors = map[string][]string{
	"s3":                  {"getdataaccess"},
	"s3express":           {"createsession"},
	"ecr":                 {"getauthorizationtoken"},
	"ecr-public":          {"getauthorizationtoken"},
	"codeartifact":        {"getauthorizationtoken"},
	"redshift":            {"getclustercredentials", "getclustercredentialswithiam"},
	"redshift-serverless": {"getcredentials"},
	"lakeformation":       {"getdataaccess", "gettemporarydatalocationcredentials", "gettemporarygluepartitioncredentials", "gettemporarygluetablecredentials"},
	"cognito-identity":    {"getcredentialsforidentity", "getopenidtoken", "getopenidtokenfordeveloperidentity"},
	"cognito-idp":         {"admininitiateauth", "adminrespondtoauthchallenge"},
	"elasticmapreduce":    {"getclustersessioncredentials"},
	"emr-containers":      {"getmanagedendpointsessioncredentials"},
	"datazone":            {"getenvironmentcredentials"},
	"deadline":            {"assumefleetroleforread", "assumefleetroleforworker", "assumequeueroleforread", "assumequeueroleforuser", "assumequeueroleforworker"},
	"gamelift":            {"requestuploadcredentials", "getinstanceaccess", "getcomputeaccess", "getcomputeauthtoken"},
	"iot":                 {"assumerolewithcertificate"},
	"airflow":             {"createclitoken", "createweblogintoken"},
	"connect":             {"getfederationtoken"},
	"grafana":             {"createworkspaceapikey", "createworkspaceserviceaccounttoken"},
	"sagemaker":           {"createpresigneddomainurl", "createpresignednotebookinstanceurl"},
	"quicksight":          {"generateembedurlforanonymoususer", "generateembedurlforregistereduser", "getdashboardembedurl", "getsessionembedurl"},
	"appsync":             {"createapikey"},
	"lightsail":           {"createbucketaccesskey", "downloaddefaultkeypair", "getinstanceaccessdetails"},
}

// forbidden reports whether a session policy must not contain an IAM action or a pattern of
// actions. The service part is never a pattern, so the comparison equals IAM's. Names of actions
// are case-insensitive.
func forbidden(action string) bool {
	m := iamAction.FindStringSubmatch(action)
	if m == nil || slices.Contains(identities, m[1]) {
		return true
	}
	return slices.ContainsFunc(vendors[m[1]], func(name string) bool {
		hit, err := path.Match(strings.ToLower(m[2]), name) // only * and ? are special in what iamAction lets through
		return hit || err != nil
	})
}

func (c Config) readStatements(ps *problems) []statement {
	var out []statement
	for i, st := range c.Statements {
		one := statement{Statement: st}
		bad := func(format string, a ...any) {
			ps.add("statements[%d]: %w", i, fmt.Errorf(format, a...))
		}
		if slices.Contains(s3Actions, st.Action) || st.Action == scopes.Any {
			bad("action: %q is taken: name it after the service, like table-read", st.Action)
		}
		var err error
		if one.serves, err = scopes.New(c.Name, st.Resource, st.Action); err != nil {
			bad("action and resource: %w", err)
			continue
		}
		segments := one.serves.Segments()
		if one.depth = len(segments); segments[one.depth-1] == scopes.Rest {
			one.depth, one.rest = one.depth-1, true
		}
		for _, a := range st.Allow {
			if forbidden(a) {
				bad("allow: %q is not service:Action, or hands out identities or credentials that outlive the session", a)
			}
		}
		if len(st.Allow) == 0 || len(st.On) == 0 {
			bad("allow and on: name at least one action and one resource")
		}
		one.checkConditions(bad)
		one.checkTemplates(segments, bad)
		for j, other := range out {
			if one.serves.Overlaps(other.serves) {
				bad("serves the same scopes as statements[%d]", j)
			}
		}
		out = append(out, one)
	}
	return out
}

func (st statement) checkConditions(bad func(string, ...any)) {
	for op, keys := range st.When {
		if !operator.MatchString(op) {
			bad("when: %q is not an operator of IAM", op)
		}
		for key, values := range keys {
			if !conditionOn.MatchString(key) || slices.Contains(reservedKeys, strings.ToLower(key)) {
				bad("when: %q is not a condition key, or one that ebb itself sets", key)
			}
			if len(values) == 0 {
				bad("when: %s has no value", key)
			}
		}
	}
}

// checkTemplates requires that every resource identifies the scope's resource; otherwise two
// different scopes would allow the same.
func (st statement) checkTemplates(segments []string, bad func(string, ...any)) {
	var values []string
	for _, keys := range st.When {
		for _, vs := range keys {
			values = append(values, vs...)
		}
	}
	for _, text := range slices.Concat(st.On, values) {
		if !printable.MatchString(text) || adjacent.MatchString(text) || variable.MatchString(text) {
			bad("%q: must be printable ASCII, with / or : between two placeholders and no $ before one", text)
		}
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(m[1])
			if err == nil && (n < 1 || n > st.depth) || m[1] == "rest" && !st.rest {
				bad("%q: the resource %s has no %s", text, st.Resource, m[0])
			}
		}
	}
	for i, segment := range segments {
		if segment != scopes.Any && segment != scopes.Rest {
			continue
		}
		name := "{" + strconv.Itoa(i+1) + "}"
		if segment == scopes.Rest {
			name = "{rest}"
		}
		has := func(text string) bool { return strings.Contains(text, name) }
		for _, text := range st.On {
			if !has(text) && !slices.ContainsFunc(values, has) {
				bad("on: %q must hold %s, or a condition must: otherwise all of %s would permit the same", text, name, st.Resource)
			}
		}
	}
}

func (d *Driver) statementPermissions(s scopes.Scope) ([]permission, error) {
	for _, st := range d.statements {
		if st.serves.Covers(s) {
			return st.permission(s)
		}
	}
	return nil, fmt.Errorf("%w: %s: the action is not one of S3 (%s), and no statement is configured for this resource",
		provider.ErrUnsupported, s, strings.Join(s3Actions, ", "))
}

func (st statement) permission(s scopes.Scope) ([]permission, error) {
	segments := s.Segments()
	deep := segments[len(segments)-1] == scopes.Rest
	if deep {
		segments = segments[:len(segments)-1]
	}
	if slices.Contains(segments, scopes.Any) || deep && len(segments) < st.depth {
		return nil, fmt.Errorf("%w: %s: AWS has no pattern for one path segment: name the resource", provider.ErrUnsupported, s)
	}
	fill := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(hole string) string {
			n, err := strconv.Atoi(hole[1 : len(hole)-1])
			if err == nil {
				return literal(segments[n-1])
			}
			rest := literal(strings.Join(segments[st.depth:], "/"))
			if !deep {
				return rest
			}
			if rest != "" {
				rest += "/"
			}
			return rest + "*"
		})
	}
	p := permission{actions: st.Allow}
	for _, on := range st.On {
		p.resources = append(p.resources, fill(on))
	}
	if len(st.When) > 0 {
		p.when = conditions{}
	}
	for op, keys := range st.When {
		p.when[op] = map[string]many{}
		for key, values := range keys {
			for _, v := range values {
				p.when[op][key] = append(p.when[op][key], fill(v))
			}
		}
	}
	return []permission{p}, nil
}
